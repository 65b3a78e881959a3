// Prints the runner.toml of this runner for the Node and the machine that this script runs on.

const ARCHITECTURES = { x64: "x86_64", arm64: "aarch64" };
const SYSTEMS = { linux: "unknown-linux-gnu", darwin: "apple-darwin" };

const platform = `${ARCHITECTURES[process.arch]}-${SYSTEMS[process.platform]}`;
if (platform.includes("undefined")) throw new Error(`no target triple for ${process.arch} and ${process.platform}`);

console.log(`version = 1

[[runner]]
runner_name = "node"
framework_version = "${process.versions.node}"
runner_compat_version = 1
runner_interface_version = 2
runner_release_date = "2026-11-21T00:00:00Z"
runner_path = "runner.mjs"
platform = "${platform}"
files = "directory"
environment = ["NODE_*"]`);

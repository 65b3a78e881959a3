//! Models on the Hugging Face Hub: a server on this machine that answers as it does.

use std::fs;

use carton_core::Sha256Digest;
use carton_test_server::{Answer, File, Server};

use crate::sandbox::{Outcome, Sandbox, outcome};

const COMMIT: &str = "1f0e3dad99908345f7439f8ffabdffc4d1a2b3c4";

/// A server with the repository `team/model`, whose files are given, and which the token `hf_secret` opens. Large files are elsewhere, as on
/// the Hub.
fn serving(files: &[(&str, &[u8])]) -> Server {
    let server = Server::start();
    let mut tree = Vec::new();
    for (path, bytes) in files {
        let is_large = bytes.len() > 1000;
        let mut entry = serde_json::json!({"type": "file", "oid": "ce013625030ba8dba906f756967f9e9ca394464a", "size": bytes.len(), "path": path});
        if is_large {
            let oid = Sha256Digest::of(bytes).to_string();
            entry["lfs"] = serde_json::json!({"oid": oid, "size": bytes.len(), "pointerSize": 134});
        }
        tree.push(entry);
        let file = File::new(bytes.to_vec());
        let stored = format!("/cdn/{}?Signature=x", path.replace(' ', "%20"));
        server.route(stored.split('?').next().unwrap(), move |request| {
            assert!(request.header("authorization").is_none(), "the token was sent to where a redirect leads");
            file.answer(request)
        });
        // Another host, as the Hub's store of large files is.
        let elsewhere = server.url(&stored).replace("127.0.0.1", "localhost");
        let small = File::new(bytes.to_vec());
        for revision in ["main", "v1", COMMIT] {
            let (elsewhere, small) = (elsewhere.clone(), small.clone());
            server.route(&format!("/team/model/resolve/{revision}/{}", path.replace(' ', "%20")), move |request| {
                if request.header("authorization") != Some("Bearer hf_secret") {
                    return Answer::bytes(401, "{\"error\": \"Invalid credentials\"}");
                }
                if is_large { Answer::redirect(302, elsewhere.clone()) } else { small.answer(request) }
            });
        }
    }
    tree.push(serde_json::json!({"type": "directory", "oid": "0", "size": 0, "path": "folder"}));
    // In two pages, as the Hub answers long lists.
    let half = tree.len() / 2;
    let pages = [tree[..half].to_vec(), tree[half..].to_vec()].map(|page| serde_json::to_string(&page).unwrap());
    for revision in ["main", "v1", COMMIT] {
        let (pages, next) =
            (pages.clone(), server.url(&format!("/api/models/team/model/tree/{revision}?recursive=true&cursor=2")));
        server.route(&format!("/api/models/team/model/tree/{revision}"), move |request| {
            match request.target.contains("cursor=2") {
                true => Answer::bytes(200, pages[1].clone()),
                false => Answer::bytes(200, pages[0].clone()).header("Link", format!("<{next}>; rel=\"next\"")),
            }
        });
        server.route(&format!("/api/models/team/model/revision/{revision}"), |_| {
            Answer::bytes(200, format!("{{\"sha\": \"{COMMIT}\"}}"))
        });
    }
    server
}

fn carton(sandbox: &Sandbox, server: &Server, arguments: &str) -> Outcome {
    let mut command = sandbox.command(arguments.split(' '));
    outcome(command.env("HF_ENDPOINT", server.url("")).env("HF_TOKEN", "hf_secret"))
}

/// Packs a model and returns the carton.
fn packed(sandbox: &Sandbox) -> Vec<u8> {
    sandbox.write("model/weights.bin", vec![7; 5000]);
    sandbox.carton("pack model --runner noop --compression stored").expect_code(0);
    fs::read(sandbox.work().join("model.carton")).unwrap()
}

#[test]
fn a_carton_is_read_from_a_repository() {
    let sandbox = Sandbox::new();
    let bytes = packed(&sandbox);
    let server = serving(&[("README.md", b"# Model"), ("one.carton", &bytes)]);
    let hash = sandbox.carton("hash model.carton").expect_code(0).stdout;
    for name in ["hf://team/model/one.carton", "hf://team/model", "hf://team/model@v1"] {
        assert_eq!(carton(&sandbox, &server, &format!("hash {name}")).expect_code(0).stdout, hash);
        carton(&sandbox, &server, &format!("run {name} -i x=1")).expect_code(0);
    }
    // Without the network, a name without a file leads where it led before.
    for (name, code) in
        [("hf://team/model", 0), ("hf://team/model@main", 0), ("hf://team/model@v1", 0), ("hf://team/model@other", 7)]
    {
        carton(&sandbox, &server, &format!("run {name} -i x=1 --offline")).expect_code(code);
    }
    // The expected carton needs no question.
    server.forget();
    carton(&sandbox, &server, &format!("run hf://team/model#sha256={} -i x=1", hash.trim())).expect_code(0);
    assert!(server.requests().is_empty(), "{:?}", server.requests());
    // A rule for the repository.
    sandbox.write("config.toml", "[[trust]]\nfor = [\"hf://team/**\"]\nkeys = [\"key.pub.pem\"]\n");
    sandbox.carton("keygen -o key.pem").expect_code(0);
    let unsigned = carton(&sandbox, &server, "info hf://team/model --config config.toml").expect_code(4);
    assert!(unsigned.stderr.contains("`hf://team/model` is not signed"), "{unsigned}");
    sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    let signature = File::new(fs::read(sandbox.work().join("model.carton.sig")).unwrap());
    server.serve("/team/model/resolve/main/one.carton.sig", signature);
    carton(&sandbox, &server, "info hf://team/model --config config.toml").expect_code(0);
}

#[test]
fn a_token_is_needed_and_never_shown() {
    let sandbox = Sandbox::new();
    let server = serving(&[("one.carton", &packed(&sandbox))]);
    let mut command = sandbox.command(["info", "hf://team/model", "-vv"]);
    let outcome = outcome(command.env("HF_ENDPOINT", server.url(""))).expect_code(7);
    assert!(outcome.stderr.contains("401"), "{outcome}");
    let shown = carton(&sandbox, &server, "info hf://team/model -vv").expect_code(0);
    assert!(!shown.stderr.contains("hf_secret"), "{shown}");
    // The token that the Hub's own program stores.
    let token = sandbox.work().parent().unwrap().join("home/.cache/huggingface/token");
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(token, "hf_secret\n").unwrap();
    crate::sandbox::outcome(sandbox.command(["info", "hf://team/model"]).env("HF_ENDPOINT", server.url("")))
        .expect_code(0);
}

#[test]
fn which_carton_is_meant_is_asked_for() {
    let sandbox = Sandbox::new();
    let bytes = packed(&sandbox);
    let server = serving(&[("one.carton", &bytes), ("folder/two.carton", &bytes)]);
    let outcome = carton(&sandbox, &server, "info hf://team/model").expect_code(1);
    assert!(outcome.stderr.contains("several cartons: folder/two.carton, one.carton"), "{outcome}");
    assert!(outcome.stderr.contains("hf://team/model/folder/two.carton"), "{outcome}");
    carton(&sandbox, &server, "info hf://team/model/folder/two.carton").expect_code(0);
    let none = serving(&[("weights.bin", b"1")]);
    let outcome = carton(&sandbox, &none, "info hf://team/model").expect_code(1);
    assert!(outcome.stderr.contains("`hf://team/model` has no carton"), "{outcome}");
    for (name, code) in [("hf://team", 2), ("hf://team/model@v2", 7), ("hf://team/other", 7), ("hf://team/model/x", 7)]
    {
        carton(&sandbox, &server, &format!("info {name}")).expect_code(code);
    }
}

#[test]
fn a_bare_model_is_packed() {
    let sandbox = Sandbox::new();
    let weights = (0..50_000_u32).map(|n| (n * 7) as u8).collect::<Vec<_>>();
    let files: [(&str, &[u8]); 4] =
        [(".gitattributes", b"x"), ("config.json", b"{}"), ("weights.bin", &weights), ("folder/a b", b"2")];
    let server = serving(&files);
    let outcome = carton(&sandbox, &server, "pack hf://team/model@v1 --runner noop").expect_code(0);
    assert!(outcome.stderr.contains(COMMIT), "{outcome}");
    sandbox.carton("unpack model.carton").expect_code(0);
    for (path, bytes) in &files[1..] {
        assert_eq!(fs::read(sandbox.work().join("model/model").join(path)).unwrap(), *bytes);
    }
    assert!(!sandbox.work().join("model/model/.gitattributes").exists());
    carton(&sandbox, &server, "pack hf://team/model/weights.bin --runner noop -o one.carton").expect_code(0);
    assert_eq!(carton(&sandbox, &server, "ls one.carton").expect_code(0).stdout.matches("model/").count(), 1);
    // Of what is large, nothing is fetched twice.
    assert!(server.written_for("/cdn/weights.bin") < 2 * weights.len() as u64);
}

#[test]
fn the_papers_of_a_model_are_kept() {
    let sandbox = Sandbox::new();
    let readme = b"---\npipeline_tag: image-classification\n---\n# Model\n";
    let weights = [7; 5000];
    let files: [(&str, &[u8]); 5] = [
        ("README.md", readme),
        ("LICENSE.txt", b"Do what you want"),
        ("weights.bin", &weights),
        ("folder/LICENSE", b"another"),
        ("notes.md", b"no"),
    ];
    let server = serving(&files);
    for (name, others) in [("hf://team/model", 5), ("hf://team/model/weights.bin", 1)] {
        carton(&sandbox, &server, &format!("pack {name} --runner noop -o packed.carton")).expect_code(0);
        let info = sandbox.carton("info packed.carton --json").expect_code(0).json();
        assert_eq!(info["card"]["pipeline_tag"], "image-classification");
        let paths = info["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap());
        let paths: Vec<&str> = paths.filter(|path| path.starts_with("m")).collect();
        let (misc, model): (Vec<&str>, Vec<&str>) = paths.iter().partition(|path| path.starts_with("misc/"));
        assert_eq!(misc, ["misc/LICENSE.txt", "misc/README.md"]);
        assert_eq!(model.len(), others, "{model:?}");
    }
    sandbox.write("mine.md", "# Mine");
    carton(&sandbox, &server, "pack hf://team/model --runner noop --misc README.md=mine.md -o packed.carton")
        .expect_code(0);
    assert_eq!(sandbox.carton("info packed.carton --json").json()["card"], serde_json::json!({}));
    // A README without front matter is one of the papers, too.
    let plain = serving(&[("README.md", b"# Model"), ("weights.bin", b"1")]);
    carton(&sandbox, &plain, "pack hf://team/model --runner noop -o packed.carton").expect_code(0);
    assert!(sandbox.carton("ls packed.carton").stdout.contains("misc/README.md"));
}

#[test]
fn a_server_that_lies_is_found_out() {
    let sandbox = Sandbox::new();
    let server = serving(&[("weights.bin", &[7; 5000])]);
    server.serve("/cdn/weights.bin", File::new(vec![8; 5000]));
    let outcome = carton(&sandbox, &server, "pack hf://team/model --runner noop").expect_code(4);
    assert!(outcome.stderr.contains("digest mismatch for `weights.bin`"), "{outcome}");
    server.serve("/cdn/weights.bin", File::new(vec![7; 6000]));
    carton(&sandbox, &server, "pack hf://team/model --runner noop").expect_code(7);
    let lists = [
        "[{\"type\": \"file\", \"path\": \"../x\", \"size\": 1}]",
        "[{\"type\": \"file\", \"path\": \"/etc/x\", \"size\": 1}]",
        "[{\"type\": \"file\", \"path\": \"x\", \"size\": -1}]",
        "[{\"type\": \"file\", \"path\": \"x\", \"lfs\": {\"oid\": \"1\", \"size\": 1}}]",
        "{}",
        "[]",
    ];
    for list in lists {
        for revision in ["main", COMMIT] {
            server.route(&format!("/api/models/team/model/tree/{revision}"), move |_| Answer::bytes(200, list));
        }
        let outcome = carton(&sandbox, &server, "pack hf://team/model --runner noop");
        assert!(matches!(outcome.code, 1 | 7), "{list}: {outcome}");
    }
    server.route("/api/models/team/model/revision/main", |_| Answer::bytes(200, "{\"sha\": \"../../x\"}"));
    carton(&sandbox, &server, "pack hf://team/model --runner noop").expect_code(7);
    assert_eq!(fs::read_dir(sandbox.work()).unwrap().count(), 0);
}

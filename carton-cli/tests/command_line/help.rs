//! Help, versions and completions.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Returns the lines from the one that begins with `from` on, up to the one that begins with `to`; an empty `to` means the end.
fn part(text: &str, from: &str, to: &str) -> String {
    let begins = |line: &&str, with: &str| line.trim_start().starts_with(with);
    let lines = text.lines().skip_while(|line| !begins(line, from));
    let lines = lines.take_while(|line| to.is_empty() || !begins(line, to));
    let lines: Vec<&str> = if from.is_empty() { lines.collect() } else { ["[…]"].into_iter().chain(lines).collect() };
    lines.join("\n").trim_end().to_owned()
}

#[test]
fn the_commands_are_listed() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("-h"), @r#"
    exit code: 0
    ----- stdout -----
    Packs machine-learning models into one verifiable file and runs them in isolated runners

    Usage: carton [OPTIONS] <COMMAND>

    Commands:
      pack         Pack a model into a .carton file
      unpack       Extract everything in a carton into a folder
      shrink       Leave files out of a carton that can be fetched when it is loaded
      info         Show what a carton says about its model
      diff         Show what differs between two cartons
      ls           List the files in a carton [alias: list]
      verify       Check every file in a carton against its manifest
      hash         Print the hash that identifies a model (SHA-256 of its manifest)
      sign         Sign a carton, so that others can tell whom it is from
      keygen       Make a pair of keys to sign cartons with
      run          Run a model, or its self-tests
      serve        Serve models over HTTP and gRPC, by the Open Inference Protocol
      push         Push a carton to a registry of container images
      pull         Write a carton of a registry as a file
      tag          Give a carton in a registry a further tag
      registry     See what is in a registry
      runner       See and install runners, the programs that run models
      tensor       Look at, check and convert tensor files and the tensors of cartons
      dataset      Write, check and look into datasets of many safetensors files
      cache        See, check and clear the cache of model files
      doctor       Look at what this machine lacks, and say how to mend it
      completions  Print a script that completes this command in a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -V, --version  Print version; with -v what was built in
      -h, --help     Print help (see more with '--help')

    Global options:
          --json            Print one JSON object on standard output, {"error": …} when the command
                            fails
      -q, --quiet           Print nothing but results and errors
      -v, --verbose...      Say more: -v shows what is done and what the runner prints, -vv is for
                            finding faults
          --color <WHEN>    When to use colors; `auto` means on a terminal, unless NO_COLOR is set
                            [default: auto] [possible values: auto, always, never]
          --progress <HOW>  How to show progress: bars (`auto`, on a terminal only), a line now and
                            then, or nothing [default: auto] [possible values: auto, plain, none]
          --offline         Never use the network
          --config <FILE>   The configuration file [default: ~/.carton/config.toml]
    ----- stderr -----
    "#);
    assert_snapshot!(sandbox.run::<&str>([]).expect_code(2).stderr.lines().next().unwrap_or_default(), @"Packs machine-learning models into one verifiable file and runs them in isolated runners");
}

#[test]
fn pack_explains_itself() {
    let help = Sandbox::new().carton("pack --help").to_string();
    assert_snapshot!(part(&help, "", "--opt <KEY=VALUE>"), @r#"
    exit code: 0
    ----- stdout -----
    Pack a model into a .carton file

    Usage: carton pack [OPTIONS] <PATH>

    Arguments:
      <PATH>
              The model: a file, a folder, or its address, such as hf://OWNER/REPOSITORY@REVISION,
              s3://BUCKET/FILE or runs:/RUN/NAME; with --resolve, a carton

    Options:
          --resolve
              Make a carton whole instead: PATH is a .carton file, its URL, or the folder of an unpacked
              one, and the files that it only links are brought back. Its hash stays the same

          --expect <HASH>
              With --resolve: refuse the carton unless its manifest has this SHA-256 (see `carton hash`)

          --allow-file-links
              With --resolve: let a local carton's LINKS name local files

          --runner <NAME>
              The runner that will run the model (see `carton runner ls`) [default: the metadata's, else
              the one for a .onnx file, TorchScript, a Python module or a folder with one, or the files
              of a framework]

          --install-runners
              Install the runner from the configured index if it is missing

          --framework-version <REQUIREMENT>
              The versions of the runner's framework that can run the model, such as `>=1.12, <2`
              [default: what the runner recommends for this model]

          --metadata <FILE.toml>
              Name, description, inputs, outputs, self-tests and examples: a carton.toml that may leave
              out `[runner]`
              
              Tensor references in it may be files next to it: `x = "x.npy"`, or `x = "cases.npz#x"`.

          --strict
              Refuse mistakes in the metadata, instead of warning of them: keys that mean nothing,
              descriptions with `@misc/FILE` that is not in the carton, and platforms that do not exist
    "#);
}

#[test]
fn pack_explains_what_goes_into_the_carton() {
    let help = Sandbox::new().carton("pack --help").to_string();
    assert_snapshot!(part(&help, "--opt <KEY=VALUE>", "Global options:"), @"
    […]
          --opt <KEY=VALUE>
              An option for the runner, stored in the carton; numbers, booleans and lists as JSON,
              anything else is a string
              
              env.NAME=VALUE is an environment variable, which the carton sets for the model.

          --bundle-wheels
              Put the packages that a Python model needs into the carton, so that it runs without a
              network

          --exclude <PATTERN>
              Leave files of the folder out of the carton: a pattern as in .gitignore, which comes after
              those of the folder's .cartonignore
              
              A pattern that begins with `!` packs what an earlier one leaves out. Without a pattern,
              what no model needs is left out: .git, __pycache__, .ipynb_checkpoints, wandb and the
              like.

          --allow-secret <PATH>
              Pack this file although it looks like a secret; env.NAME for an environment variable

          --eject <FOLDER>
              Write the Python model that runs the file into this folder, to read and change it, and
              pack nothing

          --misc <[NAME=]FILE>
              A file that examples and descriptions refer to as @misc/FILE; NAME=FILE stores it under
              another name, such as pictures/cat.png=cat.png

          --record-self-test <NAME=VALUE>
              Run the packed model with these inputs and store what it returns as a self-test
              
              Give the option once for each input; the values are written as for `carton run --input`.
              If neither the metadata nor the model declares inputs and outputs, those of this call are
              declared, for all sizes.
              
              [alias: --example]

          --cast
              Cast arrays of --record-self-test to the declared dtypes, as `carton run --cast` does

          --no-check
              Write the carton without loading the model: neither declared inputs and outputs nor
              self-tests are checked
              
              Otherwise the model is loaded in its runner and put to the self-tests, and no file is
              written when something does not match (exit code 3) or the runner refuses the model or
              crashes (6). Without self-tests it is run on zeros, if it takes them, and output shapes
              that the model states wrongly are corrected with a warning. The python runner refuses
              syntax errors and missing functions in any case.

          --link <SHA256=URL>
              Leave the file with this SHA-256 out of the carton, to be fetched from the URL; several
              URLs of one file are tried in turn

          --links <LINKS.toml>
              Leave out every file that this LINKS file has URLs for, as `carton shrink --links` does;
              it may know other files too

          --compression <METHOD>
              How to compress; `auto` decides for each file, and leaves weights as they are so that
              runners can map them

              Possible values:
              - auto:    What suits each file
              - stored:  Nothing is compressed
              - zstd:    Every file with zstd
              - deflate: Every file with Deflate, which every zip tool can read
              
              [default: auto]

          --tensor-format <FORMAT>
              How to store the numeric tensors of self-tests and examples: a file each, or all in one
              
              Only readers that know of it can open a carton with a file of many tensors.

              Possible values:
              - bin:         A file each, which every reader of cartons knows
              - safetensors: One safetensors file
              - ztensor:     One zTensor file
              
              [default: bin]

      -o, --output <OUT.carton>
              The file to write, replaced if it is there [default: the model's name with .carton, here]

      -h, --help
              Print help (see a summary with '-h')

    Sandbox:
          --sandbox <MODE>
              How the model is confined: `on`, as far as this system can; `strict`, or not run at all;
              `off` [default: on]
              
              A confined model has its own files, a scratch folder, and nothing else: no other files, no
              network, no other processes.

          --allow <WHAT>
              Let the model use `network`, or `read=PATH`: a file or folder; `build` builds Python
              packages from their sources
              
              A path that has your home folder, the configuration or the cache in it also needs
              `private`.
              
              What a carton asks for is shown by `carton info`, and has to be allowed here or in the
              configuration.

          --env <NAME[=VALUE]>
              Give the model an environment variable: `NAME`, one of yours, or `NAME=VALUE`
              
              It replaces one that the carton sets. Of your other variables, the model gets only those
              on a fixed list, such as `PATH` and `OMP_NUM_THREADS`.

          --limit <LIMIT>
              Limit the runner: `memory=4GiB`, `processes=N`, `open_files=N`, `file_size=1GB`,
              `cpu_seconds=N`
    ");
}

#[test]
fn pack_has_examples() {
    let help = Sandbox::new().carton("pack --help").to_string();
    assert_snapshot!(part(&help, "Global options:", ""), @r#"
    […]
    Global options:
          --json
              Print one JSON object on standard output, {"error": …} when the command fails

      -q, --quiet
              Print nothing but results and errors

      -v, --verbose...
              Say more: -v shows what is done and what the runner prints, -vv is for finding faults

          --color <WHEN>
              When to use colors; `auto` means on a terminal, unless NO_COLOR is set
              
              [default: auto]
              [possible values: auto, always, never]

          --progress <HOW>
              How to show progress: bars (`auto`, on a terminal only), a line now and then, or nothing
              
              [default: auto]
              [possible values: auto, plain, none]

          --offline
              Never use the network

          --config <FILE>
              The configuration file [default: ~/.carton/config.toml]

    Examples:
      Pack an ONNX model. Inputs and outputs are read from it, and it is loaded to see that it runs:
        carton pack digits.onnx

      Add a name, descriptions and self-tests, and choose the file. The self-tests must pass:
        carton pack digits.onnx --metadata digits.toml -o digits.carton

      Name the runner, where the file leaves doubt which one runs it:
        carton pack my_model/ --runner python --opt infer_fn=predict

      Record what the model returns for an input as its self-test:
        carton pack digits.onnx --record-self-test x=x.npy

      Pack a model that this machine cannot run:
        carton pack large.onnx --no-check

      Bring back what `carton shrink` left out:
        carton pack --resolve small.carton -o digits.carton

      The metadata file, in short:
        model_name = "digits"
        [[self_test]]
        inputs = { x = "cases.npz#x" }
        expected_out = { y = "cases.npz#y" }
    ----- stderr -----
    "#);
}

#[test]
fn run_explains_itself() {
    let help = Sandbox::new().carton("run --help").to_string();
    assert_snapshot!(part(&help, "", "--opt <KEY=VALUE>"), @r#"
    exit code: 0
    ----- stdout -----
    Run a model, or its self-tests

    Usage: carton run [OPTIONS] <MODEL>

    Arguments:
      <MODEL>
              A .carton file, the folder of an unpacked one, the URL of a .carton file,
              oci://HOST/REPOSITORY:TAG, or hf://OWNER/REPOSITORY@REVISION/FILE, s3://, gs:// or
              az://BUCKET/KEY

    Options:
          --expect <HASH>
              Refuse the carton unless its manifest has this SHA-256 (see `carton hash`)

          --allow-file-links
              Let a carton on this machine link to files on this machine (file:// in its LINKS)

          --key <PUB.pem>
              Refuse the carton unless this public key signed it (repeat for one of several keys)

          --bundle <FILE>
              The carton's signing bundle, a file or URL [default: MODEL.sig]

          --require-signed
              Refuse the carton unless somebody signed it who is trusted (see `[[trust]]` in the
              configuration)

      -i, --input <[NAME=]VALUE>
              An input: NAME=FILE.npy, NAME=FILE.npz#ARRAY, NAME=FILE.safetensors#TENSOR, NAME=@FILE or
              NAME='JSON'; without NAME= in the declared order
              
              @FILE is the bytes of a file, for an input of bytes, or its text, for one of strings; `@-`
              is standard input. FILE.zt#TENSOR is a tensor of a zTensor file. FILE.npz or
              FILE.safetensors alone gives every array in it by its name.
              
              JSON is cast to the declared dtype: booleans are true and false, complex numbers pairs,
              bytes base64, and null is NaN; NaN and Infinity need no quotes. Without a declaration it
              becomes what NumPy makes of the same list. With --rows, the input has this value for all
              rows.

      -o, --output <[NAME=]FILE>
              Write an output to a file: NAME=FILE.npy; without NAME= in the declared order. FILE.npz or
              FILE.safetensors takes all outputs
              
              With --rows, the one file for all rows: FILE.parquet, FILE.arrow, or an Arrow stream:
              FILE.arrows, `-` for standard output.

          --self-test
              Run the carton's self-tests and compare what comes out

          --example <NAME>
              Run the model on the inputs of one of the carton's examples, and compare what comes out
              with its sample outputs
              
              An example without a name is `example_N`, counted from 0. A difference is shown and is no
              failure.

          --cast
              Cast arrays to the declared dtypes, where no value changes but floats that are rounded to
              shorter ones
              
              What the dtype cannot hold is refused: 300 in uint8, 0.5 or NaN in integers, 1e39 or the
              integer 16777217 in float32. Booleans become 0 and 1. Tensors of types that only weights
              have are cast too.

          --rtol <R>
              Relative tolerance of self-tests and examples
              
              [default: 1e-5]

          --atol <A>
              Absolute tolerance of self-tests and examples
              
              [default: 1e-8]
    "#);
}

#[test]
fn run_explains_the_options_of_runners() {
    let help = Sandbox::new().carton("run --help").to_string();
    assert_snapshot!(part(&help, "--opt <KEY=VALUE>", "Global options:"), @"
    […]
          --opt <KEY=VALUE>
              An option for the runner that overrides the carton's; numbers, booleans and lists as JSON
              
              env.NAME=VALUE is an environment variable, as --env gives one.

          --device <DEVICE>
              Where to run: `cpu`, the index of a GPU, or its UUID [default: the CPU in the sandbox,
              else the framework's choice]

          --runner <NAME>
              Use this runner. MODEL may then be a bare model that is in no carton

          --install-runners
              Install the runner from the configured index if it is missing

          --framework-version <REQUIREMENT>
              Accept these versions of the runner's framework, whatever the carton requires

          --timeout <TIME>
              Stop the runner when a call takes longer, such as `30s`, `500ms` or `2m`

          --signature-mode <HOW>
              What to do when inputs or outputs are not as the carton declares them

              Possible values:
              - strict: An error
              - warn:   A warning
              - off:    Nothing
              
              [default: strict]

      -h, --help
              Print help (see a summary with '-h')

    Sandbox:
          --sandbox <MODE>
              How the model is confined: `on`, as far as this system can; `strict`, or not run at all;
              `off` [default: on]
              
              A confined model has its own files, a scratch folder, and nothing else: no other files, no
              network, no other processes.

          --allow <WHAT>
              Let the model use `network`, or `read=PATH`: a file or folder; `build` builds Python
              packages from their sources
              
              A path that has your home folder, the configuration or the cache in it also needs
              `private`.
              
              What a carton asks for is shown by `carton info`, and has to be allowed here or in the
              configuration.

          --env <NAME[=VALUE]>
              Give the model an environment variable: `NAME`, one of yours, or `NAME=VALUE`
              
              It replaces one that the carton sets. Of your other variables, the model gets only those
              on a fixed list, such as `PATH` and `OMP_NUM_THREADS`.

          --limit <LIMIT>
              Limit the runner: `memory=4GiB`, `processes=N`, `open_files=N`, `file_size=1GB`,
              `cpu_seconds=N`

    Tables:
          --rows <FILE>
              Run the model on each row of Parquet and Arrow files, and write the outputs as a table to
              --output; `-` is a stream on standard input. A folder is the table of its files, in the
              order of their names, without those that begin with `_` or `.`. May be given several times

          --input-column <INPUT=COLUMN>
              The column of an input, if it has another name than the input

          --output-column <OUTPUT=COLUMN>
              The column of an output. Outputs without this option are then left out [default: all
              outputs, under their names]

          --keep <A,B>
              Write these columns of the table too; `*` means all of them, and an empty list none
              [default: all columns that are not inputs]

          --null <VALUE>
              What missing values of a column become: NaN where the input is a float; without the option
              they are an error

              Possible values:
              - nan: They become NaN

          --times <UNIT>
              Count dates, timestamps, times of day and durations in this unit: dates and timestamps
              from 1970-01-01 (UTC), times of day from midnight; without the option they are an error

              Possible values:
              - s:  Seconds
              - ms: Milliseconds
              - us: Microseconds
              - ns: Nanoseconds

          --workers <N>
              The number of runner processes that work at the same time, at most 1024 [default: 1]

          --batch-size <ROWS>
              The most rows in a call of the model [default: 1024, or the number that the carton
              declares]

          --batch-bytes <SIZE>
              The most bytes of inputs in a call of the model, such as `64MiB` [default: 16MiB]
    ");
}

#[test]
fn run_has_examples() {
    let help = Sandbox::new().carton("run --help").to_string();
    assert_snapshot!(part(&help, "Global options:", ""), @r#"
    […]
    Global options:
          --json
              Print one JSON object on standard output, {"error": …} when the command fails

      -q, --quiet
              Print nothing but results and errors

      -v, --verbose...
              Say more: -v shows what is done and what the runner prints, -vv is for finding faults

          --color <WHEN>
              When to use colors; `auto` means on a terminal, unless NO_COLOR is set
              
              [default: auto]
              [possible values: auto, always, never]

          --progress <HOW>
              How to show progress: bars (`auto`, on a terminal only), a line now and then, or nothing
              
              [default: auto]
              [possible values: auto, plain, none]

          --offline
              Never use the network

          --config <FILE>
              The configuration file [default: ~/.carton/config.toml]

    Examples:
      Run a model on arrays in files, and write what it returns to another:
        carton run digits.carton -i x=x.npy -o y=y.npy

      Give the input as JSON, and get the outputs as JSON:
        carton run digits.carton -i x='[[1.0, 2.0]]' --json

      Give the bytes of a file to a model that takes bytes:
        carton run classifier.carton -i image=@cat.jpg

      Run the self-tests; exit code 3 means that outputs differ:
        carton run digits.carton --self-test --rtol 1e-4

      Run the model on an example that `carton info` lists:
        carton run digits.carton --example 'an image'

      Run a model that is in no carton:
        carton run digits.onnx --runner onnx --framework-version '>=1.12' -i cases.npz

      Run the model on every row of a table, in two processes:
        carton run digits.carton --rows images.parquet -o digits.parquet --workers 2

    With --json, outputs are {"outputs": {NAME: {"dtype", "shape", "data"}}}: data holds nested lists,
    and the strings
    "NaN", "Infinity" and "-Infinity" for the numbers that JSON lacks; booleans are true and false,
    complex numbers pairs,
    and bytes base64. An output written to a file has "file" in place of
    "data"; a ragged one has "shapes", one for each of its tensors, in place of "shape".
    ----- stderr -----
    "#);
}

#[test]
fn every_command_has_help() {
    let sandbox = Sandbox::new();
    for command in
        ["pack", "unpack", "shrink", "info", "ls", "verify", "hash", "run", "runner", "completions", "dataset write"]
    {
        for help in [format!("{command} -h"), format!("{command} --help")] {
            let outcome = sandbox.carton(&help).expect_code(0);
            assert!(outcome.stdout.contains("Usage: carton"), "{outcome}");
            assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 100), "{outcome}");
            assert_eq!(outcome.stderr, "");
        }
    }
}

#[test]
fn the_version() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.carton("--version").expect_code(0).stdout, concat!("carton ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_for_every_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let outcome = sandbox.carton(&format!("completions {shell}")).expect_code(0);
        assert!(outcome.stdout.contains("CARTON_COMPLETE"), "{shell}");
    }
}

#[test]
fn help_is_a_command_too() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.carton("help").expect_code(0).stdout, sandbox.carton("--help").expect_code(0).stdout);
    for command in ["run", "tensor", "tensor cat", "runner install"] {
        let help = sandbox.carton(&format!("help {command}")).expect_code(0);
        assert_eq!(help.stdout, sandbox.carton(&format!("{command} --help")).expect_code(0).stdout, "{command}");
        assert_eq!(help.stderr, "");
    }
    assert_eq!(
        sandbox.carton("tensor help cat").expect_code(0).stdout,
        sandbox.carton("tensor cat --help").expect_code(0).stdout
    );
    assert_snapshot!(sandbox.carton("help nothing"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: unrecognized subcommand 'nothing'

    Usage: carton [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

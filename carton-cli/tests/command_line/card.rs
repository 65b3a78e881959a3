//! `carton info --html`: the card of a model as a file.

use std::fs;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, names};

const METADATA: &str = r#"
model_name = "echo"
short_description = "Gives back <what> it gets"
model_description = "Some *Markdown*, <script>and HTML</script>, ![a cat](@misc/cat.png)"

[[input]]
name = "x"
dtype = "float32"
shape = ["batch", 3]

[[output]]
name = "x"
dtype = "float32"
shape = ["batch", 3]
"#;

fn packed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("echo/weights.bin", "weights");
    sandbox.write("echo.toml", METADATA);
    sandbox.write("cat.png", b"\x89PNG\r\n\x1a\nrest");
    sandbox.carton("pack echo --runner noop --metadata echo.toml --misc cat.png").expect_code(0);
    sandbox
}

#[test]
fn the_card_is_one_file() {
    let sandbox = packed();
    assert_snapshot!(sandbox.carton("info echo.carton --html card.html"), @"
    exit code: 0
    ----- stdout -----
    card.html
    ----- stderr -----
    ");
    assert_eq!(sandbox.files(), ["card.html", "cat.png", "echo", "echo.carton", "echo.toml"]);
    assert!(names(&sandbox.temporary()).is_empty());
    let card = fs::read_to_string(sandbox.work().join("card.html")).unwrap();
    assert!(card.starts_with("<!DOCTYPE html>") && card.ends_with("</html>"), "{card}");
    for part in [
        "<h1>echo</h1>",
        "Gives back &lt;what&gt; it gets",
        "<em>Markdown</em>, &lt;script&gt;and HTML&lt;/script&gt;, <img alt=\"a cat\" src=\"data:image/png;base64,",
        "<code>[batch, 3]</code>",
    ] {
        assert!(card.contains(part), "{part} in {card}");
    }
    assert!(!card.contains("<script"), "{card}");
}

#[test]
fn the_card_replaces_an_older_one() {
    let sandbox = packed();
    sandbox.write("card.html", "an older card");
    assert_snapshot!(sandbox.carton("info echo.carton --html card.html --json"), @r#"
    exit code: 0
    ----- stdout -----
    {
      "html": "card.html",
      "manifest_sha256": "[HASH]"
    }
    ----- stderr -----
    "#);
    let file = fs::read_to_string(sandbox.work().join("card.html")).unwrap();
    let printed = sandbox.carton("info echo.carton --html -").expect_code(0);
    assert_eq!((printed.stdout, printed.stderr.as_str()), (file, ""));
}

#[test]
fn a_card_that_cannot_be_written_leaves_nothing() {
    let sandbox = packed();
    let before = sandbox.files();
    assert_snapshot!(sandbox.carton("info echo.carton --html none/card.html"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `none/card.html`

    Caused by:
      there is no folder `none`
    ");
    assert_snapshot!(sandbox.carton("info echo.carton --html echo"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `echo`

    Caused by:
      something is there that is not a file
    ");
    assert_snapshot!(sandbox.carton("info none.carton --html card.html"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot open `none.carton`

    Caused by:
      No such file or directory (os error 2)
    ");
    assert_snapshot!(sandbox.carton("info echo.carton --html - --json"), @r#"
    exit code: 2
    ----- stdout -----
    {
      "error": {
        "kind": "usage",
        "message": "standard output is the page, and has no room for the result of --json",
        "causes": [],
        "hint": null
      }
    }
    ----- stderr -----
    "#);
    assert_eq!(sandbox.files(), before);
}

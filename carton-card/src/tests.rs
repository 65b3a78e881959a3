//! Pages of whole cartons.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use carton_core::{Carton, Package, Sha256Digest, block_on};
use tempfile::TempDir;

use crate::{CONTENT_SECURITY_POLICY, Card, SCRIPT_PATH, STYLE, ServedModel, State};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";
const HOSTILE: &str = "\"'><script>window.hostile=1</script><img src=x onerror=hostile=1>";

/// An unpacked carton of these files. The metadata has a runner before `metadata`.
fn package(metadata: &str, files: &[(&str, &[u8])]) -> (TempDir, Package) {
    let folder = tempfile::tempdir().unwrap();
    let runner = "spec_version = 1\n";
    let end = "\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\nrunner_compat_version = 1\n";
    let metadata = format!("{runner}{metadata}{end}");
    let mut files = files.to_vec();
    files.push(("carton.toml", metadata.as_bytes()));
    files.push(("model/a", b"a"));
    files.sort();
    let mut manifest = String::new();
    for (path, content) in files {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(place, content).unwrap();
        manifest.push_str(&format!("{path}={}\n", Sha256Digest::of(content)));
    }
    fs::write(folder.path().join("MANIFEST"), manifest).unwrap();
    let package = block_on::<_, carton_core::Error>(Carton::open(folder.path())).unwrap();
    (folder, package)
}

/// A TOML string.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string()
}

/// Fails if a page has an element or attribute that its templates do not make.
#[track_caller]
fn assert_harmless(page: &str) {
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, page.matches(&format!("<script src=\"{SCRIPT_PATH}\" defer>")).count(), "{page}");
    let images = page.matches("<img").count();
    assert_eq!(page.matches("<iframe").count() + page.matches("<svg onload").count(), 0, "{page}");
    for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        for attribute in tag.split_whitespace().skip(1) {
            let is_quoted = tag.contains('"');
            let name = attribute.split('=').next().unwrap();
            assert!(!name.starts_with("on") || is_quoted && inside_quotes(tag, attribute), "{tag} in {page}");
            assert!(name != "style" || inside_quotes(tag, attribute), "{tag} in {page}");
        }
    }
    assert_eq!(page.matches(" src=\"data:image/").count(), images, "{page}");
}

/// Whether a piece of a tag is in the value of an attribute.
fn inside_quotes(tag: &str, piece: &str) -> bool {
    tag.find(piece).is_some_and(|start| tag[..start].matches('"').count() % 2 == 1)
}

#[test]
fn names_and_texts_are_escaped() {
    let hostile = quoted(HOSTILE);
    let metadata = format!(
        r#"
        model_name = {hostile}
        short_description = {hostile}
        model_description = {hostile}
        license = {hostile}
        repository = "javascript:window.hostile=1"
        homepage = {hostile}
        required_platforms = ["x86_64-unknown-linux-gnu"]

        [card]
        pipeline_tag = {hostile}
        tags = [{hostile}]
        intended_use = {hostile}
        datasets = [{{ name = {hostile}, url = "javascript:hostile=1", license = {hostile}, description = {hostile} }}]
        base_model = [{{ name = {hostile}, url = {hostile}, relation = {hostile} }}]
        results = [{{ metric = {hostile}, value = {hostile}, dataset = {hostile}, source = {hostile} }}]
        co2_eq_emissions = {{ emissions = 1, source = {hostile} }}

        [[input]]
        name = {hostile}
        dtype = "float32"
        shape = ["</script><script>", 1, 8, 8]
        description = {hostile}

        [[output]]
        name = {hostile}
        dtype = "string"
        shape = "*"

        [[self_test]]
        name = {hostile}
        description = {hostile}
        inputs = {{ {hostile} = "@tensor_data/x" }}

        [[example]]
        name = {hostile}
        description = {hostile}
        inputs = {{ {hostile} = "@tensor_data/x" }}
        sample_out = {{ {hostile} = "@tensor_data/words", picture = "@misc/\"onerror=hostile=1 <script>.png", text = "@misc/x.txt", svg = "@misc/x.svg" }}
        "#
    );
    let index = r#"
        [[tensor]]
        name = "x"
        dtype = "float32"
        shape = [1, 2, 2]
        file = "x.bin"
        [[tensor]]
        name = "words"
        dtype = "string"
        shape = [1]
        file = "words.toml"
    "#;
    let words = format!("data = [{hostile}]");
    let numbers: Vec<u8> = [0.0_f32, 1.0, 2.0, 3.5].iter().flat_map(|number| number.to_le_bytes()).collect();
    let (_folder, package) = package(
        &metadata,
        &[
            ("misc/\"onerror=hostile=1 <script>.png", PNG),
            ("misc/x.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='hostile=1'/>"),
            ("misc/x.txt", HOSTILE.as_bytes()),
            ("tensor_data/index.toml", index.as_bytes()),
            ("tensor_data/words.toml", words.as_bytes()),
            ("tensor_data/x.bin", &numbers),
        ],
    );
    let card = Card::new(&package);
    let standalone = card.standalone_html();
    assert_harmless(&standalone);
    assert!(!standalone.contains("<script"), "{standalone}");
    assert!(standalone.contains("alt=\"Heat map of &quot;'&gt;&lt;script&gt;"), "{standalone}");
    assert!(standalone.contains("src=\"data:image/png;base64,iVBORw0KGgpyZXN0\""), "{standalone}");
    assert!(!standalone.contains("image/svg"), "{standalone}");
    assert!(!standalone.contains("href=\"javascript:"), "{standalone}");

    let model = ServedModel::new(HOSTILE).version(HOSTILE).state(State::NotReady(HOSTILE)).takes_token(true);
    let page = card.page(&model);
    assert_harmless(&page);
    let data = page.split("data-model=\"").nth(1).unwrap().split('"').next().unwrap();
    let data = data.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let data: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["inputs"][0]["name"], HOSTILE);
    assert_eq!(data["stored"][0]["inputs"][HOSTILE]["text"], "[[[0,1],[2,3.5]]]");
    assert_eq!(data["stored"][1]["label"], format!("Self-test: {HOSTILE}"));
}

#[test]
fn the_policy_allows_the_style_alone() {
    let (_folder, package) = package("", &[]);
    let page = Card::new(&package).standalone_html();
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; img-src data:; media-src data:; style-src 'sha256-"), "{policy}");
    for policy in [policy, CONTENT_SECURITY_POLICY] {
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    }
    assert!(page.contains(STYLE) && page.contains("Unnamed model"), "{page}");
}

#[test]
fn pictures_are_embedded_up_to_a_limit() {
    let large = [PNG, &vec![0; 5 << 20]].concat();
    let metadata = r#"
        model_description = "![one](@misc/large.png) ![two](@misc/large.png) ![three](@misc/no.png) ![four](@misc/x.wav)"
        [[example]]
        inputs = { a = "@misc/large.png", b = "@misc/small.png", c = "@misc/x.wav" }
        sample_out = {}
    "#;
    let files: [(&str, &[u8]); 4] = [
        ("misc/large.png", &large),
        ("misc/no.png", b"<html>"),
        ("misc/small.png", PNG),
        ("misc/x.wav", b"RIFF\0\0\0\0WAVEfmt "),
    ];
    let (_folder, package) = package(metadata, &files);
    let page = Card::new(&package).standalone_html();
    assert_eq!(page.matches("src=\"data:image/png").count(), 2, "one large and one small picture");
    for text in ["two (<code>misc/large.png</code>, not shown)", "three (<code>misc/no.png</code>, not shown)"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.contains("four (<code>misc/x.wav</code>, not shown)"));
    assert!(page.contains("<code>misc/large.png</code>: 5.0 MiB, too large to show"));
    assert!(
        page.contains("<audio controls preload=\"none\" aria-label=\"c: misc/x.wav\" src=\"data:audio/wav;base64,")
    );
}

#[test]
fn examples_are_shown_up_to_a_limit() {
    let metadata = "[[example]]\ninputs = { x = \"@misc/x.txt\" }\nsample_out = {}\n".repeat(20);
    let (_folder, package) = package(&metadata, &[("misc/x.txt", b"some text")]);
    let page = Card::new(&package).standalone_html();
    assert_eq!(page.matches("some text").count(), 16);
    assert!(page.contains("and 4 more examples"));
}

#[test]
fn damaged_files_are_named() {
    let metadata = "[[example]]\ninputs = { x = \"@misc/x.png\" }\nsample_out = {}\n";
    let (folder, package) = package(metadata, &[("misc/x.png", PNG)]);
    fs::write(folder.path().join("misc/x.png"), [PNG, b"!"].concat()).unwrap();
    let page = Card::new(&package).standalone_html();
    assert!(!page.contains("<img") && page.contains("<code>misc/x.png</code>: cannot be read: "), "{page}");
}

#[test]
fn the_card_of_a_readme_is_shown() {
    let readme = b"---\npipeline_tag: image-classification\ntags: [digits]\nlicense: mit\n---\n# Digits\n";
    let metadata = "[card]\ntags = [\"own\"]\nlimitations = \"Digits *alone*.\"\n";
    let (_folder, package) = package(metadata, &[("misc/README.md", readme)]);
    let page = Card::new(&package).standalone_html();
    for part in [
        "<h2 id=\"model-card\">Model card</h2>",
        "<dt>Task</dt><dd>image-classification</dd>",
        "<dt>License</dt><dd>mit</dd>",
        "<dt>Tags</dt><dd>own</dd>",
        "Digits <em>alone</em>.",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let (_folder, without) = crate::tests::package("", &[("misc/README.md", b"# Digits")]);
    assert!(!Card::new(&without).standalone_html().contains("Model card"));
}

#[test]
fn a_model_without_declared_inputs_takes_a_request() {
    let (_folder, package) = package("", &[]);
    let page = Card::new(&package).page(&ServedModel::new("a b"));
    assert!(page.contains("<textarea id=\"request\"") && page.contains("POST /v2/models/a%20b/infer"), "{page}");
    assert!(!page.contains("id=\"token\"") && page.contains("badge good"), "{page}");
}

//! Files that LINKS leads to, here on this machine.

use carton_network::http::{Network, NetworkOptions};

use super::*;
use crate::error::Failure as _;

/// A carton without its weights, whose LINKS leads to `url` and says what is in `sizes`.
fn linked(url: &str, sizes: &str) -> Builder {
    let weights = pattern(300_000);
    let builder = Builder::default().file("carton.toml", b"spec_version = 1\n").stored("model/weights.bin", &weights);
    let digest = Sha256Digest::of(&weights);
    let links = format!("version = 1\n[urls]\n{digest} = [\"{url}\"]\n{}", sizes.replace("{}", &digest.to_string()));
    Builder { links: Some(links), ..builder.linked("model/weights.bin") }
}

fn open(desk: &Desk, builder: &Builder) -> Contents {
    desk.write(builder);
    let network = Network::new(NetworkOptions { offline: true, ..NetworkOptions::default() });
    desk.open().unwrap().with_access(Some(Access { link_network: network.clone(), network, file_links: true }))
}

#[test]
fn a_file_must_have_the_size_that_links_says() {
    let check = |sizes: &str, expected: Option<&str>| {
        let desk = Desk::new();
        let file = desk.folder.path().join("weights");
        fs::write(&file, pattern(300_000)).unwrap();
        let contents = open(&desk, &linked(&format!("file://{}", file.display()), sizes));
        match (contents.fetch(|_| true, &Context::default()), expected) {
            (Ok(()), None) => assert!(contents.has_locally(|_| true), "{sizes}"),
            (Err(error), Some(expected)) => {
                assert!(error.to_string().contains(expected), "{sizes}: {error}");
                assert_eq!(error.kind(), ErrorKind::Integrity, "{sizes}");
                assert!(!contents.has_locally(|_| true), "{sizes}");
            }
            (found, _) => panic!("{sizes}: {found:?}"),
        }
    };
    check("", None);
    check("[sizes]\n{} = 300000", None);
    // The digest is right: only the size is not.
    check("[sizes]\n{} = 300001", Some("has 300000 bytes, expected exactly 300001, as declared"));
    check("[sizes]\n{} = 299999", Some("model/weights.bin"));
}

#[test]
fn what_is_refused_shows_no_query() {
    let desk = Desk::new();
    let contents = open(&desk, &linked("file:///nobody/has/this?token=secret", ""));
    let error = contents.fetch(|_| true, &Context::default()).unwrap_err().to_string();
    assert!(error.contains("file:///nobody/has/this?…") && !error.contains("secret"), "{error}");
    let contents = contents.with_access(None);
    assert!(contents.fetch(|_| true, &Context::default()).is_err());
}

//! Linked files: every URL is tried in turn, encodings are decoded, and wrong bytes are never accepted.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use carton_core::{Carton, ErrorKind, Sha256Digest};
use carton_test_server::nginx::Nginx;
use carton_test_server::{Answer, File};
use carton_tests::weights;

use crate::setting::{Setting, chain, read_zip, run, write_zip};

const LENGTH: usize = 3 << 20;

/// Makes a setting with a carton whose `weights.bin` is linked from `urls`; `{}` in a URL stands for the server.
async fn linked(urls: &[&str]) -> (Setting, PathBuf, Vec<u8>) {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let packed = setting.pack("model", &[("weights.bin", &weights), ("vocabulary.txt", b"a b c")]).await;
    let server = format!("http://{}", setting.server.authority());
    let urls: Vec<String> = urls.iter().map(|url| url.replace("{}", &server)).collect();
    let carton = link(&packed.path, "model/weights.bin", &weights, &urls);
    (setting, carton, weights)
}

/// Writes the carton without one file, which is linked instead. Does not use our own writer.
pub(crate) fn link(carton: &Path, entry: &str, bytes: &[u8], urls: &[String]) -> PathBuf {
    let links = format!("version = 1\n[urls]\n{} = {urls:?}\n", Sha256Digest::of(bytes));
    let output = carton.with_extension("linked.carton");
    let mut entries = read_zip(carton);
    entries.retain(|(name, _)| name != entry);
    entries.push(("LINKS".to_owned(), links.into_bytes()));
    write_zip(&output, &entries);
    output
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn every_url_is_tried_in_turn() {
    let urls = ["http://127.0.0.1:9/nobody", "{}/missing", "{}/wrong", "{}/cut", "{}/longer", "{}/right", "{}/never"];
    let (setting, carton, weights) = linked(&urls).await;
    let file = File::new(weights.clone());
    setting.server.serve("/wrong", File::new(weights::bytes(LENGTH, 2)));
    setting.server.route("/cut", move |request| file.answer(request).cut_after(1000));
    setting.server.serve("/longer", File::new([weights.as_slice(), b"!"].concat()));
    setting.server.serve("/right", File::new(weights.clone()));
    setting.must_load(text(&carton)).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
    for path in ["/missing", "/wrong", "/cut", "/longer", "/right"] {
        assert!(!setting.server.exchanges_for(path).is_empty(), "{path} was not tried");
    }
    assert!(setting.server.exchanges_for("/never").is_empty());
    setting.server.forget();
    setting.must_load(text(&carton)).await;
    assert!(setting.server.exchanges().is_empty());
}

#[tokio::test]
async fn when_none_is_right_all_are_named() {
    let (setting, carton, weights) = linked(&["{}/wrong", "{}/missing?secret=1", "{}/wrong/too"]).await;
    setting.server.serve("/wrong", File::new(weights::bytes(LENGTH, 2)));
    setting.server.serve("/wrong/too", File::new("too short"));
    let error = setting.load(text(&carton)).await.unwrap_err();
    let message = chain(&error);
    for path in ["/wrong", "/missing", "/wrong/too"] {
        assert!(message.contains(&setting.server.url(path)), "{path} is not in: {message}");
    }
    assert!(message.contains("404") && message.contains("weights.bin"), "{message}");
    assert!(!message.contains("secret"), "{message}");
    assert_eq!(error.kind(), ErrorKind::Integrity, "{message}");
    assert_eq!(setting.n_cached(&[("", &weights)]), 0);

    let (setting, carton, _) = linked(&["{}/a", "{}/b"]).await;
    let message = setting.must_fail(text(&carton), ErrorKind::Network).await;
    assert!(message.contains("/a") && message.contains("/b"), "{message}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Encodes bytes as uncompressed Brotli (RFC 7932, section 9.2): a window of 64 KiB, then blocks of up to that size.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    // The window's size is one bit, which shifts only the first block's header: each further header fills whole bytes.
    let mut encoded = Vec::new();
    for (index, block) in bytes.chunks(1 << 16).enumerate() {
        // Not the last block (1 bit), length of four digits (2 bits), the length less one (16 bits), not compressed (1 bit).
        let header = (block.len() as u32 - 1) << 3 | 1 << 19;
        let header = if index == 0 { header << 1 } else { header };
        encoded.extend_from_slice(&header.to_le_bytes()[..3]);
        encoded.extend_from_slice(block);
    }
    // The last block, which is empty.
    encoded.push(0b11);
    encoded
}

fn encode(encodings: &str, bytes: &[u8]) -> Vec<u8> {
    encodings.split(", ").fold(bytes.to_vec(), |bytes, encoding| match encoding {
        "gzip" | "x-gzip" => gzip(&bytes),
        "zlib" => zlib(&bytes),
        "deflate" => raw_deflate(&bytes),
        "zstd" => zstd(&bytes),
        "br" => brotli(&bytes),
        other => panic!("{other}"),
    })
}

const ENCODINGS: [&str; 8] = ["gzip", "zlib", "deflate", "zstd", "br", "gzip, zstd", "br, deflate, gzip", "zstd, zstd"];

#[tokio::test]
async fn encodings_are_undone() {
    for encodings in ENCODINGS {
        let (setting, carton, weights) = linked(&["{}/file"]).await;
        let encoding = encodings.replace("zlib", "deflate");
        let file = File { encoding: Some(encoding), ..File::new(encode(encodings, &weights)) };
        setting.server.serve("/file", file);
        let result = setting.load(text(&carton)).await;
        result.unwrap_or_else(|error| panic!("{encodings}: {}", chain(&error)));
        assert_eq!(setting.n_cached(&[("", &weights)]), 1, "{encodings}");
    }
}

#[tokio::test]
async fn encodings_of_a_real_server_are_undone() {
    let locations: Vec<String> = ENCODINGS
        .iter()
        .enumerate()
        .map(|(n, encodings)| {
            let encodings = encodings.replace("zlib", "deflate");
            format!("location /{n}/ {{ add_header Content-Encoding \"{encodings}\"; }}")
        })
        .chain(["location /static/ { gzip_static on; }".to_owned()])
        .chain(["location /moving/ { gzip on; gzip_types *; gzip_min_length 1; }".to_owned()])
        .collect();
    let Some(nginx) = Nginx::start(&locations.join("\n")) else { return };
    let weights: Vec<u8> = b"text that gzip makes smaller, ".repeat(50_000);
    for (n, encodings) in ENCODINGS.iter().enumerate() {
        nginx.write(&format!("{n}/file"), encode(encodings, &weights));
    }
    nginx.write("static/file", &weights);
    nginx.write("static/file.gz", gzip(&weights));
    nginx.write("moving/file", &weights);
    let setting = Setting::new();
    let packed = setting.pack("model", &[("weights.bin", &weights)]).await;
    for place in (0..ENCODINGS.len()).map(|n| n.to_string()).chain(["static".to_owned(), "moving".to_owned()]) {
        let carton = link(&packed.path, "model/weights.bin", &weights, &[nginx.url(&format!("{place}/file"))]);
        let result = setting.load(text(&carton)).await;
        result.unwrap_or_else(|error| panic!("{place}: {}", chain(&error)));
        assert_eq!(setting.n_cached(&[("", &weights)]), 1, "{place}");
        fs::remove_dir_all(setting.place.config().cache_dir).unwrap();
    }
}

#[tokio::test]
async fn encodings_that_are_wrong_move_on_to_the_next_url() {
    let urls = ["{}/not-gzip", "{}/cut", "{}/unknown", "{}/rest", "{}/deep", "{}/right"];
    let (setting, carton, weights) = linked(&urls).await;
    let encoded = |encoding: &str, bytes: Vec<u8>| File { encoding: Some(encoding.to_owned()), ..File::new(bytes) };
    let compressed = gzip(&weights);
    setting.server.serve("/not-gzip", encoded("gzip", weights.clone()));
    setting.server.serve("/cut", encoded("gzip", compressed[..compressed.len() / 2].to_vec()));
    setting.server.serve("/unknown", encoded("compress", weights.clone()));
    setting.server.serve("/rest", encoded("gzip", [compressed.as_slice(), b"what follows is not gzip"].concat()));
    setting.server.serve("/deep", encoded(&["gzip"; 1000].join(", "), compressed.clone()));
    setting.server.serve("/right", encoded("gzip", compressed));
    setting.must_load(text(&carton)).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
}

#[tokio::test]
async fn bombs_do_not_fill_the_disk() {
    // A gibibyte of zeros in a megabyte or less, then encoded once more, in some kilobytes.
    let zeros = vec![0; 1 << 20];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..1024).for_each(|_| encoder.write_all(&zeros).unwrap());
    let gzip_bomb = encoder.finish().unwrap();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    (0..1024).for_each(|_| encoder.write_all(&zeros).unwrap());
    let zstd_bomb = encoder.finish().unwrap();
    let bombs = [("gzip", gzip_bomb.clone()), ("zstd", zstd_bomb), ("gzip, gzip", gzip(&gzip_bomb))];
    for (encoding, bomb) in bombs {
        let (setting, carton, _) = linked(&["{}/bomb"]).await;
        setting.server.serve("/bomb", File { encoding: Some(encoding.to_owned()), ..File::new(bomb) });
        let error = setting.load(text(&carton)).await.expect_err(encoding);
        assert!(matches!(error.kind(), ErrorKind::Network | ErrorKind::Integrity), "{encoding}: {}", chain(&error));
        let kept: u64 = setting.cache_files().values().sum();
        assert!(kept < 64 << 20, "{encoding}: {kept} bytes are left in {:#?}", setting.cache_files());
    }
}

#[tokio::test]
async fn an_endless_file_ends() {
    // Without a size in LINKS only the limits of the reader bound the body, unless the answer states its length, as here.
    let (setting, carton, weights) = linked(&["{}/endless"]).await;
    setting.server.route("/endless", move |_| Answer::endless(200, *b"never ends").claiming(LENGTH as u64 + 1));
    let error = setting.load(text(&carton)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Network | ErrorKind::Integrity), "{}", chain(&error));
    assert_eq!(setting.n_cached(&[("", &weights)]), 0);
    assert!(setting.server.written_for("/endless") < 64 << 20);
}

#[tokio::test]
async fn files_of_this_machine_are_linked_only_where_the_user_allows_it() {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let file = setting.place.path().join("elsewhere.bin");
    fs::write(&file, &weights).unwrap();
    let packed = setting.pack("model", &[("weights.bin", &weights)]).await;
    let carton = link(&packed.path, "model/weights.bin", &weights, &[format!("file://{}", file.display())]);
    let load = |location: &str, allow_file_links| {
        let mut config = setting.config();
        config.allow_file_links = allow_file_links;
        Carton::load(location).config(config)
    };

    let error = load(text(&carton), false).await.unwrap_err();
    assert!(chain(&error).contains("file://") || chain(&error).contains("elsewhere.bin"), "{}", chain(&error));
    // A carton from a server must not decide which of our files are read.
    let url = setting.serve("/model.carton", &carton);
    for allow in [false, true] {
        let error = load(&url, allow).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Network), "{}", chain(&error));
        assert_eq!(setting.n_cached(&[("", &weights)]), 0);
    }
    run(load(text(&carton), true)).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    // Once the bytes are in the cache, their source does not matter.
    setting.must_load(&url).await;
}

#[tokio::test]
async fn a_linked_file_may_be_behind_a_remote_carton() {
    let (setting, carton, weights) = linked(&["{}/weights"]).await;
    setting.server.serve("/weights", File::new(weights.clone()));
    let url = setting.serve("/model.carton", &carton);
    setting.must_load(&url).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
    setting.server.forget();
    run(setting.loading_offline(&url)).await.unwrap();
    assert!(setting.server.exchanges().is_empty());
}

#[tokio::test]
async fn a_redirect_of_a_link_may_not_lead_to_files() {
    let (setting, carton, weights) = linked(&["{}/file"]).await;
    let file = setting.place.path().join("elsewhere.bin");
    fs::write(&file, &weights).unwrap();
    let target = format!("file://{}", file.display());
    setting.server.route("/file", move |_| Answer::redirect(302, target.as_str()));
    setting.must_fail(text(&carton), ErrorKind::Network).await;
}

/// Serves a carton with a link at a URL with another host than the server's own: both are this machine.
fn on_another_host(setting: &Setting, carton: &Path) -> String {
    setting.serve("/model.carton", carton).replace("127.0.0.1", "localhost")
}

#[tokio::test]
async fn a_carton_from_another_host_may_not_link_to_private_addresses() {
    for name in ["{}/right", "{}/detour"] {
        let (setting, carton, weights) = linked(&[name]).await;
        setting.server.serve("/right", File::new(weights.clone()));
        let target = setting.server.url("/right").replace("127.0.0.1", "127.0.0.2");
        setting.server.route("/detour", move |_| Answer::redirect(302, target.as_str()));
        let url = on_another_host(&setting, &carton);
        let message = setting.must_fail(&url, ErrorKind::InvalidInput).await;
        assert!(message.contains("127.0.0.1, which") || message.contains("127.0.0.1:"), "{message}");
        assert!(message.contains("may not link to private addresses"), "{message}");
        assert_eq!(setting.n_cached(&[("", &weights)]), 0);
        assert!(setting.server.exchanges_for("/right").is_empty());
        assert!(setting.server.exchanges_for("/detour").is_empty());
    }
}

#[tokio::test]
async fn links_to_private_addresses_are_followed_where_the_user_named_them() {
    let (setting, carton, weights) = linked(&["{}/right"]).await;
    setting.server.serve("/right", File::new(weights.clone()));
    let url = on_another_host(&setting, &carton);
    let mut config = setting.config();
    config.allow_private_links = true;
    run(Carton::load(&url).config(config)).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    // Links to the carton's own host are allowed, and so are those of a local carton, which other tests have.
    let (setting, carton, weights) = linked(&["{}/right"]).await;
    setting.server.serve("/right", File::new(weights.clone()));
    setting.must_load(&setting.serve("/model.carton", &carton)).await;
    // The user did not name the target of a redirect.
    let (setting, carton, weights) = linked(&["{}/detour"]).await;
    setting.server.serve("/right", File::new(weights.clone()));
    let target = setting.server.url("/right").replace("127.0.0.1", "127.0.0.2");
    setting.server.route("/detour", move |_| Answer::redirect(302, target.as_str()));
    let message = setting.must_fail(&setting.serve("/model.carton", &carton), ErrorKind::InvalidInput).await;
    assert!(message.contains("127.0.0.2"), "{message}");
    assert!(setting.server.exchanges_for("/right").is_empty());
}

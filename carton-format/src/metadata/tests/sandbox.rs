//! What a carton asks for beyond its own files.

use super::*;

#[test]
fn a_request_is_read_and_written() {
    let metadata = accepted(&file("", "[sandbox]\nnetwork = true\nread = ['/srv/data', '/opt/words']"));
    assert_eq!(*metadata.sandbox(), SandboxRequest::new(true, vec!["/srv/data".into(), "/opt/words".into()]));
    assert_eq!(metadata.sandbox().to_string(), "the network, reading `/srv/data`, reading `/opt/words`");
    for tables in ["", "[sandbox]", "[sandbox]\nnetwork = false\nread = []", "[sandbox]\nfuture = 1"] {
        let metadata = accepted(&file("", tables));
        assert!(metadata.sandbox().is_empty(), "{tables}");
        assert!(!metadata.to_toml().contains("sandbox"), "{tables}");
    }
}

#[test]
fn a_request_is_read_leniently_and_written_strictly() {
    for path in ["relative", "/srv/../etc", ""] {
        let text = file("", &format!("[sandbox]\nread = ['{path}']"));
        accepted(&text);
        not_written(&text, "`sandbox.read[0]`");
    }
    refused(&file("", "[sandbox]\nnetwork = 'yes'"), "sandbox.network");
    refused(&file("sandbox = []", ""), "sandbox");
    let many = vec!["'/x'"; 5000].join(", ");
    assert_eq!(accepted(&file("", &format!("[sandbox]\nread = [{many}]"))).sandbox().read.len(), 64);
}

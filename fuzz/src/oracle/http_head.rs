//! The head of an HTTP response as lines of text: a status, then headers. An accepted response matches the request, and its values are
//! the same when they are written again.

use std::time::{Duration, SystemTime};

use carton_format::url::Url;
use carton_network::http::fuzzing::{reply, retry_after};
use carton_network::http::{Extent, Part, Request, Version};

use crate::generate::pieces::text_of;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let mut lines = text_of(bytes).lines();
    let mut is_accepted = false;
    let status = lines.next().and_then(|status| status.trim().parse().ok()).unwrap_or(206);
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    let headers: Vec<_> = lines.clone().filter_map(header).collect();
    let url = Url::parse("https://example.com/model.carton").expect("it is a URL");
    let known = Version { etag: Some("\"one\"".to_owned()), last_modified: None, length: Some(200) };
    for part in [Part::Whole, Part::Suffix(100), Part::Range(0..100), Part::Range(150..300)] {
        for version in [None, Some(&known)] {
            let request = Request { version, known: version, ..Request::new(&url, part.clone()) };
            let Ok(reply) = reply(status, &headers, &request) else { continue };
            is_accepted = true;
            check_extent(reply.extent(), &part, version.is_some());
            // Such a response has no body, and its version is the known one.
            if *reply.extent() == Extent::NotModified {
                continue;
            }
            assert!(reply.encodings().is_empty() || part == Part::Whole);
            assert!(version.is_none_or(|expected| !expected.differs(reply.version())));
        }
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for line in lines {
        if let Some(wait) = retry_after(line, now) {
            is_accepted = true;
            assert_eq!(retry_after(&wait.as_secs().to_string(), now), Some(Duration::from_secs(wait.as_secs())));
        }
    }
    is_accepted
}

fn check_extent(extent: &Extent, asked: &Part, is_known: bool) {
    match extent {
        Extent::Whole => {}
        Extent::NotModified => assert!(is_known),
        Extent::Part { range, total } => {
            assert!(range.start <= range.end && range.end <= *total);
            match asked {
                Part::Whole => panic!("a part in place of the whole"),
                Part::Suffix(length) => assert_eq!(*range, total.saturating_sub(*length)..*total),
                Part::Range(asked) => assert_eq!(*range, asked.start..asked.end.min(*total)),
            }
        }
    }
}

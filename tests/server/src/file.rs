//! A file that is served correctly, and the ways in which correct servers may differ.

use super::{Answer, Content, Request};

/// A file to serve. [`File::new`] has strong validators and supports ranges.
#[derive(Clone, Debug)]
pub struct File {
    /// The file's bytes.
    pub content: Content,
    /// The `ETag` with its quotes.
    pub etag: Option<String>,
    /// The value of `Last-Modified`.
    pub last_modified: Option<String>,
    /// Whether ranges are supported; if not, every answer has the whole file.
    pub ranges: bool,
    /// Whether ranges counted from the end are supported.
    pub suffix_ranges: bool,
    /// Whether a date in `If-Range` is supported; if not, such requests are answered with the whole file.
    pub if_range_dates: bool,
    /// The value of `Content-Encoding`; the content is encoded already.
    pub encoding: Option<String>,
}

impl File {
    /// Makes a file with an `ETag` derived from its bytes, and a date.
    #[must_use]
    pub fn new(content: impl Into<Content>) -> Self {
        static NEXT_TAG: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let tag = NEXT_TAG.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self {
            content: content.into(),
            etag: Some(format!("\"version-{tag}\"")),
            last_modified: Some("Fri, 02 Jan 2026 03:04:05 GMT".to_owned()),
            ranges: true,
            suffix_ranges: true,
            if_range_dates: true,
            encoding: None,
        }
    }

    /// The file without `ETag` and date.
    #[must_use]
    pub fn without_validators(self) -> Self {
        Self { etag: None, last_modified: None, ..self }
    }

    /// The file on a server without support for ranges.
    #[must_use]
    pub fn without_ranges(self) -> Self {
        Self { ranges: false, ..self }
    }

    /// The file with this `ETag`.
    #[must_use]
    pub fn with_etag(self, etag: &str) -> Self {
        Self { etag: Some(etag.to_owned()), ..self }
    }

    /// The correct answer to a request.
    #[must_use]
    pub fn answer(&self, request: &Request) -> Answer {
        let length = self.content.length();
        let unchanged = match (request.header("if-none-match"), request.header("if-modified-since")) {
            (Some(tags), _) => self.etag.as_deref().is_some_and(|etag| tags.contains(etag.trim_start_matches("W/"))),
            (None, Some(date)) => self.last_modified.as_deref() == Some(date),
            (None, None) => false,
        };
        if unchanged {
            return self.describe(Answer::status(304));
        }
        let strong = self.etag.as_deref().filter(|etag| !etag.starts_with("W/"));
        let same = request.header("if-range").is_none_or(|validator| {
            if validator.contains('"') {
                strong == Some(validator)
            } else {
                self.if_range_dates && self.last_modified.as_deref() == Some(validator)
            }
        });
        let knows = self.ranges && (self.suffix_ranges || !request.is_suffix());
        if request.header("range").is_none() || !knows || !same {
            return self.describe(Answer::content(200, self.content.clone(), 0..length));
        }
        match request.range(length) {
            Some(range) => {
                let content_range = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
                let answer = Answer::content(206, self.content.clone(), range);
                self.describe(answer).header("Content-Range", content_range)
            }
            None => self.describe(Answer::status(416)).header("Content-Range", format!("bytes */{length}")),
        }
    }

    fn describe(&self, answer: Answer) -> Answer {
        let headers =
            [("ETag", &self.etag), ("Last-Modified", &self.last_modified), ("Content-Encoding", &self.encoding)];
        let answer = if self.ranges { answer.header("Accept-Ranges", "bytes") } else { answer };
        headers.into_iter().fold(answer, |answer, (name, value)| match value {
            Some(value) => answer.header(name, value.as_str()),
            None => answer,
        })
    }
}

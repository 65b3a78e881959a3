//! The trace context of a request (W3C Trace Context): the header `traceparent`, taken over into the request's span. Pure.

/// The ids of the trace that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// 32 hexadecimal digits.
    pub(crate) trace_id: String,
    /// The span of the caller: 16 hexadecimal digits.
    pub(crate) parent_id: String,
    /// Whether the caller records the trace.
    pub(crate) sampled: bool,
}

impl TraceContext {
    /// Parses the header. `None` if it is not valid: then the request belongs to no trace.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace_id, parent_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
        let is_valid = is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(parent_id, 16) && is_hex(flags, 2);
        // Later versions may have further parts; this one has none.
        if !is_valid
            || version == "ff"
            || is_zero(trace_id)
            || is_zero(parent_id)
            || version == "00" && parts.next().is_some()
        {
            return None;
        }
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace_id: trace_id.to_owned(), parent_id: parent_id.to_owned(), sampled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_headers_alone() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let context =
            |sampled| Some(TraceContext { trace_id: trace.to_owned(), parent_id: parent.to_owned(), sampled });
        assert_eq!(TraceContext::parse(&format!("00-{trace}-{parent}-01")), context(true));
        assert_eq!(TraceContext::parse(&format!("00-{trace}-{parent}-00")), context(false));
        assert_eq!(TraceContext::parse(&format!("cc-{trace}-{parent}-03-more")), context(true));
        for header in [
            "",
            "00",
            &format!("00-{trace}-{parent}-01-more"),
            &format!("ff-{trace}-{parent}-01"),
            &format!("00-{}-{parent}-01", trace.to_uppercase()),
            &format!("00-{}-{parent}-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &format!("00-{trace}-{parent}-é1"),
        ] {
            assert_eq!(TraceContext::parse(header), None, "{header}");
        }
    }
}

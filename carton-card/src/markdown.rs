//! Renders a description: CommonMark with tables, struck-out text and task lists.
//!
//! Safe by construction, not by cleaning: the parser's events become elements of a fixed set, without attributes except those below, and all
//! text is escaped. HTML in the description is text like any other, so no HTML of an author is ever parsed. A link leads to the web or to a
//! mail address. A picture is one of the carton's files; nothing is loaded from elsewhere.

use maud::{Markup, PreEscaped, Render, html};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};

use crate::text;

/// The longest description that is rendered, in characters. The rest of a longer one is left out.
const MAX_LENGTH: usize = 200_000;
/// Elements in deeper ones are left out, and their text is kept. Browsers have such a limit too, and become slow near it.
const MAX_DEPTH: usize = 48;
/// The level of the highest headings: the page's own are above.
const TOP_HEADING: usize = 3;

/// Finds a picture of the carton by its path in `misc/`, and returns it as a `data:` URL.
pub(crate) type FindPicture<'a> = dyn FnMut(&str) -> Option<String> + 'a;

/// Renders Markdown.
pub(crate) fn render(markdown: &str, find_picture: &mut FindPicture<'_>) -> Markup {
    let markdown = text::cut(markdown, MAX_LENGTH);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer {
        html: String::new(),
        open: Vec::new(),
        last_heading: TOP_HEADING - 1,
        is_table_head: false,
        image: None,
        n_links: 0,
        find_picture,
    };
    for event in Parser::new_ext(&markdown, options) {
        writer.event(event);
    }
    // The parser ends everything that it starts. If it did not, the page would still be whole.
    while let Some(end) = writer.open.pop() {
        writer.html.push_str(end);
    }
    PreEscaped(writer.html)
}

/// A picture whose alternative text is being collected.
struct Image {
    target: String,
    alt: String,
    /// The elements within the alternative text that are still open.
    depth: usize,
}

struct Writer<'a, 'f> {
    html: String,
    /// The end tags of the open elements; an empty one for an element that is left out.
    open: Vec<&'static str>,
    last_heading: usize,
    is_table_head: bool,
    image: Option<Image>,
    n_links: usize,
    find_picture: &'a mut FindPicture<'f>,
}

impl Writer<'_, '_> {
    fn event(&mut self, event: Event<'_>) {
        if self.image.is_some() {
            return self.alternative_text(event);
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(_) => self.end(),
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            // `<br>` is how a line of a table is broken.
            Event::InlineHtml(text) if matches!(&*text, "<br>" | "<br/>" | "<br />") => self.html.push_str("<br>"),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => self.markup(&html! { code { (&*text) } }),
            Event::FootnoteReference(label) => self.text(&format!("[{label}]")),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(is_done) => self.text(if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.open.len() >= MAX_DEPTH && !matches!(tag, Tag::Image { .. }) {
            return self.open.push("");
        }
        match tag {
            Tag::Paragraph => self.element("<p>", "</p>"),
            Tag::Heading { level, .. } => self.heading(level),
            Tag::BlockQuote(_) => self.element("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => {
                self.element("<pre tabindex=\"0\"><code>", "</code></pre>");
            }
            Tag::HtmlBlock => self.element("<pre><code>", "</code></pre>"),
            Tag::List(None) => self.element("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.element("<ol>", "</ol>"),
            Tag::List(Some(first)) => {
                self.html.push_str(&format!("<ol start=\"{first}\">"));
                self.open.push("</ol>");
            }
            Tag::Item => self.element("<li>", "</li>"),
            Tag::Table(_) => self.element("<div class=\"scroll\"><table>", "</tbody></table></div>"),
            Tag::TableHead => {
                self.is_table_head = true;
                self.element("<thead><tr>", "</tr></thead><tbody>");
            }
            Tag::TableRow => self.element("<tr>", "</tr>"),
            Tag::TableCell if self.is_table_head => self.element("<th scope=\"col\">", "</th>"),
            Tag::TableCell => self.element("<td>", "</td>"),
            Tag::Emphasis => self.element("<em>", "</em>"),
            Tag::Strong => self.element("<strong>", "</strong>"),
            Tag::Strikethrough => self.element("<del>", "</del>"),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.image = Some(Image { target: dest_url.into_string(), alt: String::new(), depth: 0 });
            }
            // Extensions that are not switched on.
            _ => self.open.push(""),
        }
    }

    fn end(&mut self) {
        let Some(end) = self.open.pop() else { return };
        if end.starts_with("</tr></thead>") {
            self.is_table_head = false;
        }
        if end == "</a>" {
            self.n_links -= 1;
        }
        self.html.push_str(end);
    }

    fn element(&mut self, start: &'static str, end: &'static str) {
        self.html.push_str(start);
        self.open.push(end);
    }

    /// A heading one level below the last one at most: screen readers announce a skipped level as something missing.
    fn heading(&mut self, level: HeadingLevel) {
        const TAGS: [(&str, &str); 4] = [("<h3>", "</h3>"), ("<h4>", "</h4>"), ("<h5>", "</h5>"), ("<h6>", "</h6>")];
        let wanted = level as usize + TOP_HEADING - 1;
        self.last_heading = wanted.min(self.last_heading + 1);
        let index = (self.last_heading - TOP_HEADING).min(TAGS.len() - 1);
        self.element(TAGS[index].0, TAGS[index].1);
    }

    fn link(&mut self, target: &str) {
        if !is_link(target) {
            return self.open.push("");
        }
        let rest = html! { (target) };
        self.html.push_str(&format!("<a rel=\"noopener noreferrer nofollow\" href=\"{}\">", rest.0));
        self.open.push("</a>");
        self.n_links += 1;
    }

    fn text(&mut self, text: &str) {
        self.markup(&html! { (text) });
    }

    fn markup(&mut self, markup: &Markup) {
        self.html.push_str(&markup.0);
    }

    /// Collects the text of a picture, until the picture ends.
    fn alternative_text(&mut self, event: Event<'_>) {
        let Some(image) = &mut self.image else { return };
        match event {
            Event::Start(_) => image.depth += 1,
            Event::End(_) if image.depth > 0 => image.depth -= 1,
            Event::End(_) => {
                if let Some(image) = self.image.take() {
                    self.picture(&image);
                }
            }
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::Html(text) => {
                image.alt.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => image.alt.push(' '),
            _ => {}
        }
    }

    /// A picture of the carton, or what stands in for another one.
    fn picture(&mut self, image: &Image) {
        let Image { target, alt, .. } = image;
        let local = misc_path(target).map(|path| (self.find_picture)(&path).ok_or(path));
        let alt_or = |other: &'static str| if alt.trim().is_empty() { other } else { alt };
        let markup = match local {
            Some(Ok(url)) => html! { img alt=(alt) src=(url); },
            Some(Err(path)) => {
                html! { span.missing { (alt_or("picture")) " (" code { "misc/" (path) } ", not shown)" } }
            }
            // There is no link in a link.
            None if self.n_links > 0 || !is_link(target) => {
                html! { span.missing { (alt_or("picture")) " (not loaded)" } }
            }
            None => external(target, &html! { (alt_or("picture")) " (not loaded)" }),
        };
        self.markup(&markup);
    }
}

/// A link to another site; just the content if the target is no such link.
pub(crate) fn external(target: &str, content: impl Render) -> Markup {
    html! {
        @if is_link(target) {
            a rel="noopener noreferrer nofollow" href=(target) { (content) }
        } @else {
            (content)
        }
    }
}

/// Whether a link may be followed: it begins with an allowed scheme, in plain letters. Browsers drop white space before a scheme and line
/// breaks within it; such links are refused.
fn is_link(target: &str) -> bool {
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

/// The path in `misc/` that a picture means: `@misc/cat.png`, as the specification says, `misc/cat.png` or `cat.png`. `None` for one that
/// is elsewhere.
fn misc_path(target: &str) -> Option<String> {
    let path = target.strip_prefix("@misc/");
    let path = path.or_else(|| {
        let path = target.strip_prefix("./").unwrap_or(target);
        let is_relative = !path.starts_with(['/', '\\', '#', '?']) && !path.contains(':');
        is_relative.then(|| path.strip_prefix("misc/").unwrap_or(path))
    })?;
    Some(percent_encoding::percent_decode_str(path).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests;

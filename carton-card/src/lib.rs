//! Web pages of cartons: the card of a model for people, as one file or as a page of a server with a form to try the model; and what differs
//! between two cartons, as one file.
//!
//! Everything that a carton says is untrusted. Text gets into a page through templates that escape it; the description is Markdown
//! whose HTML stays text; pictures and sounds are embedded by what their bytes are, whatever their names say. A page loads nothing from other
//! servers. Its content security policy forbids scripts and styles other than the page's own, in case all of that fails.
//!
//! The crate starts no process and answers no request: bytes of a carton in, HTML out.
//!
//! ```no_run
//! use carton_card::{Card, ServedModel, index_page};
//!
//! # fn example(package: &carton_core::Package) {
//! let card = Card::new(package);
//! std::fs::write("digits.html", card.standalone_html()).ok();
//!
//! // For a server, which sends `CONTENT_SECURITY_POLICY` with each page, and `STYLE` and `SCRIPT` at their paths.
//! let model = ServedModel::new("digits");
//! let (index, page) = (index_page([&model]), card.page(&model));
//! # let _ = (index, page);
//! # }
//! ```
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `text`, `bars`, `budget`, `document`, `datatype`, `served`: small parts of pages; the limit of what is shown; the frame of a page:
//!   style, script and content security policy; what only a server knows of a model.
//! - `form`, `markdown`, `media`, `read`: the fields of a signature; descriptions, whose HTML stays text; pictures and sounds, decided
//!   by their bytes; parts of a carton, read once.
//! - `model_card`, `self_tests`, `picture`, `tensor`: what the author states; the list of self-tests; PNG; tensors.
//! - `card`: the sections of the pages.
//! - `diff`: what differs between two cartons.

mod bars;
mod budget;
mod card;
mod datatype;
mod diff;
mod document;
mod form;
mod markdown;
mod media;
mod model_card;
mod picture;
mod read;
mod self_tests;
mod served;
mod tensor;
#[cfg(test)]
mod tests;
mod text;

pub use card::Card;
pub use datatype::datatype_name;
pub use diff::diff_page;
pub use document::{CONTENT_SECURITY_POLICY, SCRIPT, SCRIPT_PATH, STYLE, STYLE_PATH};
pub use served::{ServedModel, State, index_page};

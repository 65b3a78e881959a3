//! Bills of materials of cartons: what a carton is made of, as a CycloneDX 1.6 ML-BOM, or as an SPDX 3.0.1 document with the AI profile.
//!
//! A bill of materials documents; it certifies nothing, and each one says so. What an author claims is repeated as it is, hashes are those
//! of MANIFEST, self-tests are listed and not run. What is not known is left out: nothing is guessed to fill a field.
//!
//! The crate reads no files and asks no server: what is known of a carton in [`Inventory`], a JSON document out. The same inventory
//! at the same [`Moment`] gives the same bytes.
//!
//! ```
//! use carton_bom::{Format, Moment, document};
//!
//! # fn example(package: &carton_core::Package) -> Result<(), Box<dyn std::error::Error>> {
//! let text = document(&package.inventory()?, Format::CycloneDx, &Moment::from_environment()?);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `format`, `moment`: the formats; the time of a document.
//! - `object`, `uri`, `license`, `identity`: JSON objects without empty members; texts that may stand where a URI must; licenses, which are
//!   expressions of SPDX or names; the UUID of a document.
//! - `facts`: what both formats say in words.
//! - `cyclonedx`, `spdx_document`: the documents.

mod cyclonedx;
mod facts;
mod format;
mod identity;
mod license;
mod moment;
mod object;
mod spdx_document;
#[cfg(test)]
mod tests;
mod uri;

use carton_core::package::Inventory;

pub use format::{Format, UnknownFormat};
pub use moment::{InvalidMoment, Moment};

/// Makes the bill of materials of a carton: JSON, with a line end at its end.
#[must_use]
pub fn document(inventory: &Inventory, format: Format, moment: &Moment) -> String {
    let document = match format {
        Format::CycloneDx => cyclonedx::document(inventory, moment),
        Format::Spdx => spdx_document::document(inventory, moment),
    };
    format!("{document:#}\n")
}

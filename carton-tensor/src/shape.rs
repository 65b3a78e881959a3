//! Shapes with symbols, as `carton.toml` declares them (spec/carton-format.md, "Inputs and outputs").

use std::fmt;

use serde::{Deserialize, Serialize};

/// A declared shape: the shapes that a tensor may have. Prints in the syntax of `carton.toml`.
///
/// ```
/// use carton_tensor::{Dimension, SymbolicShape};
/// let batch = Dimension::Symbol("batch".to_owned());
/// let shape = SymbolicShape::Dimensions(vec![batch, Dimension::Fixed(3), Dimension::Any]);
/// assert_eq!(shape.to_string(), r#"["batch", 3, "*"]"#);
/// assert_eq!(SymbolicShape::Any.to_string(), r#""*""#);
/// assert_eq!(SymbolicShape::Dimensions(vec![]).to_string(), "[]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Raw", into = "Raw")]
pub enum SymbolicShape {
    /// `"*"`: any shape.
    Any,
    /// A symbol for the whole shape, with one value wherever it is used. Distinct from dimension symbols of the same name.
    Symbol(String),
    /// One entry per dimension; empty for a scalar.
    Dimensions(Vec<Dimension>),
}

/// One dimension of a declared shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawDimension", into = "RawDimension")]
pub enum Dimension {
    /// `"*"`: any size, independent of other dimensions.
    Any,
    /// A symbol that has one value across all inputs and outputs of a call.
    Symbol(String),
    /// A fixed number of elements.
    Fixed(u64),
}

impl fmt::Display for SymbolicShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("\"*\""),
            Self::Symbol(name) => Quoted(name).fmt(f),
            Self::Dimensions(dimensions) => {
                f.write_str("[")?;
                for (position, dimension) in dimensions.iter().enumerate() {
                    let separator = if position == 0 { "" } else { ", " };
                    write!(f, "{separator}{dimension}")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("\"*\""),
            Self::Symbol(name) => Quoted(name).fmt(f),
            Self::Fixed(size) => size.fmt(f),
        }
    }
}

/// A TOML basic string.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                control if control.is_control() => write!(f, "\\u{:04X}", u32::from(control))?,
                plain => write!(f, "{plain}")?,
            }
        }
        f.write_str("\"")
    }
}

/// The TOML form: a name or a list.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a shape: \"*\", a symbol, or a list of sizes and symbols")]
enum Raw {
    Name(String),
    Dimensions(Vec<Dimension>),
}

/// The TOML form: a size or a name.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a dimension: a size that is not negative, a symbol or \"*\"")]
enum RawDimension {
    Fixed(u64),
    Name(String),
}

impl From<Raw> for SymbolicShape {
    fn from(raw: Raw) -> Self {
        match raw {
            Raw::Name(name) if name == "*" => Self::Any,
            Raw::Name(name) => Self::Symbol(name),
            Raw::Dimensions(dimensions) => Self::Dimensions(dimensions),
        }
    }
}

impl From<SymbolicShape> for Raw {
    fn from(shape: SymbolicShape) -> Self {
        match shape {
            SymbolicShape::Any => Self::Name("*".to_owned()),
            SymbolicShape::Symbol(name) => Self::Name(name),
            SymbolicShape::Dimensions(dimensions) => Self::Dimensions(dimensions),
        }
    }
}

impl From<RawDimension> for Dimension {
    fn from(raw: RawDimension) -> Self {
        match raw {
            RawDimension::Fixed(size) => Self::Fixed(size),
            RawDimension::Name(name) if name == "*" => Self::Any,
            RawDimension::Name(name) => Self::Symbol(name),
        }
    }
}

impl From<Dimension> for RawDimension {
    fn from(dimension: Dimension) -> Self {
        match dimension {
            Dimension::Any => Self::Name("*".to_owned()),
            Dimension::Symbol(name) => Self::Name(name),
            Dimension::Fixed(size) => Self::Fixed(size),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn symbol(name: &str) -> Dimension {
        Dimension::Symbol(name.to_owned())
    }

    #[test]
    fn shapes_read_and_print_as_written() {
        #[derive(Serialize, Deserialize)]
        struct Table {
            shape: SymbolicShape,
        }
        fn check(text: &str, expected: SymbolicShape) {
            let table: Table = toml::from_str(&format!("shape = {text}")).unwrap();
            assert_eq!(table.shape, expected);
            assert_eq!(expected.to_string(), text);
            let written = toml::to_string(&table).unwrap();
            assert_eq!(toml::from_str::<Table>(&written).unwrap().shape, expected);
        }
        check("[]", SymbolicShape::Dimensions(vec![]));
        check("\"*\"", SymbolicShape::Any);
        check("\"image_shape\"", SymbolicShape::Symbol("image_shape".to_owned()));
        check(
            "[\"batch\", 3, \"*\", 0]",
            SymbolicShape::Dimensions(vec![symbol("batch"), Dimension::Fixed(3), Dimension::Any, Dimension::Fixed(0)]),
        );
        check(r#"["a \"b\" \\ ü"]"#, SymbolicShape::Dimensions(vec![symbol("a \"b\" \\ ü")]));
        check(r#"["tab\u0009"]"#, SymbolicShape::Dimensions(vec![symbol("tab\t")]));
        for wrong in ["3", "[-1]", "[1.5]", "[[1]]", "true"] {
            assert!(toml::from_str::<Table>(&format!("shape = {wrong}")).is_err(), "{wrong}");
        }
    }
}

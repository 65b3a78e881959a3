//! Shapes with symbols, as `carton.toml` declares them (spec/carton-format.md, "Shapes").

use serde::{Deserialize, Serialize};

/// A declared shape: what shapes a tensor may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Raw", into = "Raw")]
pub enum SymbolicShape {
    /// `"*"`: any shape.
    Any,
    /// A symbol for the whole shape, the same wherever it is used. Distinct from dimension symbols of the same name.
    Symbol(String),
    /// One entry a dimension; empty for a scalar.
    Dimensions(Vec<Dimension>),
}

/// One dimension of a declared shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawDimension", into = "RawDimension")]
pub enum Dimension {
    /// `"*"`: any size, another one each time.
    Any,
    /// A symbol that has one value across all inputs and outputs of a call.
    Symbol(String),
    /// This many elements.
    Fixed(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Raw {
    Name(String),
    Dimensions(Vec<Dimension>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
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

//! The types of forward's arguments. Pure.

use serde_json::Value as Json;

/// The type of a value in TorchScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// `Tensor`.
    Tensor,
    /// `Any`.
    Any,
    /// `str`.
    String,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `bool`.
    Bool,
    /// `complex`.
    Complex,
    /// `Optional[T]`.
    Optional(Box<Self>),
    /// `List[T]`.
    List(Box<Self>),
    /// `Dict[K, V]`; K is a text or a number.
    Dictionary(Box<Self>, Box<Self>),
    /// `Tuple[T, …]`.
    Tuple(Vec<Self>),
    /// A named tuple.
    Named(Vec<(String, Self)>),
    /// Anything else, which no input can be passed for.
    Other,
}

impl ValueType {
    /// Reads what the shim writes (`TypeWriter` in `shim/load.cpp`).
    pub(super) fn from_json(text: &str) -> Self {
        serde_json::from_str(text).map_or(Self::Other, |json| Self::read(&json))
    }

    fn read(json: &Json) -> Self {
        let parts = match json {
            Json::String(name) => return Self::simple(name),
            Json::Array(parts) => parts.as_slice(),
            _ => return Self::Other,
        };
        let boxed = |json| Box::new(Self::read(json));
        match parts {
            [Json::String(name), part] if name == "optional" => Self::Optional(boxed(part)),
            [Json::String(name), part] if name == "list" => Self::List(boxed(part)),
            [Json::String(name), key, value] if name == "dict" => match Self::read(key) {
                key @ (Self::String | Self::Int | Self::Float | Self::Bool) => {
                    Self::Dictionary(Box::new(key), boxed(value))
                }
                _ => Self::Other,
            },
            [Json::String(name), parts @ ..] if name == "tuple" => Self::Tuple(parts.iter().map(Self::read).collect()),
            [Json::String(name), fields @ ..] if name == "named" => {
                let fields = fields.iter().map(|field| match field.as_array().map(Vec::as_slice) {
                    Some([Json::String(name), part]) => Some((name.clone(), Self::read(part))),
                    _ => None,
                });
                fields.collect::<Option<_>>().map_or(Self::Other, Self::Named)
            }
            _ => Self::Other,
        }
    }

    fn simple(name: &str) -> Self {
        match name {
            "tensor" => Self::Tensor,
            "any" => Self::Any,
            "str" => Self::String,
            "int" => Self::Int,
            "float" => Self::Float,
            "bool" => Self::Bool,
            "complex" => Self::Complex,
            _ => Self::Other,
        }
    }

    /// The type without `Optional`.
    #[must_use]
    pub fn present(&self) -> &Self {
        match self {
            Self::Optional(inner) => inner.present(),
            other => other,
        }
    }

    /// Whether a value of it is one text or number.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        matches!(self, Self::String | Self::Int | Self::Float | Self::Bool | Self::Complex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_as_the_shim_writes_them() {
        let check = |json: &str, expected: ValueType| assert_eq!(ValueType::from_json(json), expected, "{json}");
        check(r#""tensor""#, ValueType::Tensor);
        check(
            r#"["optional",["list","int"]]"#,
            ValueType::Optional(Box::new(ValueType::List(Box::new(ValueType::Int)))),
        );
        check(
            r#"["dict","int",["tuple","tensor","str"]]"#,
            ValueType::Dictionary(
                Box::new(ValueType::Int),
                Box::new(ValueType::Tuple(vec![ValueType::Tensor, ValueType::String])),
            ),
        );
        check(r#"["named",["a","float"]]"#, ValueType::Named(vec![("a".to_owned(), ValueType::Float)]));
        for other in [r#""other""#, r#"["dict","tensor","tensor"]"#, "nonsense", "[]", r#"["named","a"]"#] {
            check(other, ValueType::Other);
        }
    }
}

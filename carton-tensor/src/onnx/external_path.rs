//! Where the data of a tensor may be that is in another file than the model (spec/onnx-tensors.md §4). Pure: text in, a path out.

/// Returns the path, relative to the folder of the model, of the file that the entry `location` of external data names.
///
/// # Errors
/// The location is an absolute path, has a component `..`, or is not portable: a model may read its own folder and nothing else. The text
/// follows the location in a message.
///
/// ```
/// use carton_tensor::onnx::external_path;
/// assert_eq!(external_path("./sub//weights"), Ok("sub/weights".to_owned()));
/// assert!(external_path("../weights").is_err());
/// ```
pub fn external_path(location: &str) -> Result<String, &'static str> {
    if location.starts_with('/') {
        return Err("is an absolute path; it must lie in the model's folder");
    }
    // A colon after one letter is a drive of Windows.
    if location.contains(['\\', '\0', '\n']) || location.as_bytes().get(1) == Some(&b':') {
        return Err("is not a portable path: it holds a back slash, a newline or NUL, or begins with a drive");
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in location.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err("has `..` in its path; it must lie in the model's folder"),
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return Err("names no file");
    }
    Ok(parts.join("/"))
}

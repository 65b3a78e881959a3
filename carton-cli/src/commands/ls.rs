//! `carton ls`: lists the files in a carton.

use carton_core::package::FileInfo;
use carton_core::packing::Method;
use serde::Serialize;

use super::{Context, open};
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Align, Role, Table};

#[derive(Serialize)]
struct Files {
    files: Vec<FileInfo>,
}

pub(super) async fn run(model: ModelArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let files = open::open(&model, context).await?.info().files;
    if output.is_json() {
        output.json(&Files { files })?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(["SIZE", "STORED", "METHOD", "PATH"]);
    for file in &files {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let path = match &file.symlink {
            Some(target) => format!("{} -> {target}", file.path),
            None => file.path.clone(),
        };
        table.row([number(file.size), number(file.stored), how(file).to_owned(), path]);
    }
    output.text(&table.lines(&|row, _, cell| if row == 0 { output.paint(Role::Heading, &cell) } else { cell }))?;
    Ok(Exit::Ok)
}

/// Returns where and how a file's data is stored.
fn how(file: &FileInfo) -> &'static str {
    match (file.linked, &file.symlink, file.method) {
        (true, ..) => "linked",
        (_, Some(_), _) => "symlink",
        (_, _, Some(Method::Stored)) => "stored",
        (_, _, Some(Method::Deflate)) => "deflate",
        (_, _, Some(Method::Zstd)) => "zstd",
        (_, _, Some(_)) => "compressed",
        (_, _, None) => "file",
    }
}

//! Unpacked cartons: faults that are refused in a file are refused in a folder too.

use std::os::unix::fs::symlink;
use std::path::Path;

use carton_core::{Carton, ErrorKind};

use crate::builder::CartonBuilder;
use crate::judge::{Court, Failure, Verdict};

/// Unpacks the little carton, lets `change` damage it, and judges the folder.
fn judge_changed(change: impl FnOnce(&Path)) -> Verdict {
    let court = Court::new();
    let carton = court.config().cache_dir.with_file_name("little.carton");
    let folder = carton.with_extension("folder");
    std::fs::write(&carton, CartonBuilder::little().build()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        Carton::open(&carton).config(court.config()).await.unwrap().unpack(&folder).await.unwrap();
    });
    change(&folder);
    court.judge_path(folder)
}

#[test]
fn a_folder_is_as_good_as_a_file() {
    let Verdict::Good(everything) = judge_changed(|_| ()) else { panic!("refused") };
    let files = everything.files.into_iter().map(|(path, data)| (path.into_bytes(), data));
    assert_eq!(files.collect::<std::collections::BTreeMap<_, _>>(), CartonBuilder::little().files());
}

#[test]
fn damaged_folders() {
    let check = |name: &str, change: fn(&Path), message: &str| {
        let Verdict::Bad(Failure { kind, text, stage }) = judge_changed(change) else { panic!("{name}: accepted") };
        assert_eq!(kind, ErrorKind::Integrity, "{name}: {stage}: {text}");
        assert!(text.contains(message), "{name}: {stage}: expected `{message}`, found {text}");
    };
    check("no carton.toml", |f| std::fs::remove_file(f.join("carton.toml")).unwrap(), "carton.toml");
    check("no MANIFEST", |f| std::fs::remove_file(f.join("MANIFEST")).unwrap(), "MANIFEST");
    check("a file is gone", |f| std::fs::remove_file(f.join("model/weights.bin")).unwrap(), "`model/weights.bin`");
    check("a file more", |f| std::fs::write(f.join("model/more"), "x").unwrap(), "`model/more`");
    check("other bytes", |f| std::fs::write(f.join("model/weights.bin"), [0; 300]).unwrap(), "`model/weights.bin`");
    check("longer", |f| std::fs::write(f.join("misc/picture"), [0; 9000]).unwrap(), "`misc/picture`");
    check("empty", |f| std::fs::write(f.join("model/notes.txt"), "").unwrap(), "`model/notes.txt`");
    check(
        "a link out of it",
        |f| {
            std::fs::remove_file(f.join("model/weights.bin")).unwrap();
            symlink("/etc/passwd", f.join("model/weights.bin")).unwrap();
        },
        "`model/weights.bin`",
    );
    check(
        "a link to the same bytes elsewhere",
        |f| {
            std::fs::rename(f.join("model/weights.bin"), f.with_file_name("weights.bin")).unwrap();
            symlink("../../weights.bin", f.join("model/weights.bin")).unwrap();
        },
        "`model/weights.bin`",
    );
    check(
        "a circle",
        |f| {
            std::fs::remove_file(f.join("model/link")).unwrap();
            symlink("link", f.join("model/link")).unwrap();
        },
        "`model/link`",
    );
    check(
        "a link to another folder",
        |f| {
            std::fs::rename(f.join("model"), f.with_file_name("elsewhere")).unwrap();
            symlink(f.with_file_name("elsewhere"), f.join("model")).unwrap();
        },
        "model",
    );
    check(
        "a pipe",
        |f| {
            std::fs::remove_file(f.join("model/weights.bin")).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, f.join("model/weights.bin"), rustix::fs::Mode::RUSR).unwrap();
        },
        "model/weights.bin",
    );
}

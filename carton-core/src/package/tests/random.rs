//! A random tree of files and links is packed, opened and unpacked, and must not change.

use proptest::prelude::*;

use super::*;

/// A file with some bytes, or a link to a path.
#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>),
    Link(String),
}

fn any_path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abc]", 1..4).prop_map(|parts| parts.join("/"))
}

fn any_node() -> impl Strategy<Value = Node> {
    let target = (0..3_usize, any_path()).prop_map(|(up, path)| format!("{}{path}", "../".repeat(up)));
    prop_oneof![3 => any::<Vec<u8>>().prop_map(Node::File), 2 => target.prop_map(Node::Link)]
}

/// The bytes of every file below `folder`, links followed.
fn read_all(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![(folder.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if std::fs::metadata(entry.path()).unwrap().is_dir() {
                folders.push((entry.path(), format!("{name}/")));
            } else {
                files.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn trees_survive(nodes in proptest::collection::btree_map(any_path(), any_node(), 1..8)) {
        let folder = Folder::new();
        folder.file("outside", "out");
        for (path, node) in nodes {
            let path = folder.path("m").join(path);
            // Not every set of paths is a tree. A path that is blocked by an earlier one is skipped.
            if std::fs::create_dir_all(path.parent().unwrap()).is_err() {
                continue;
            }
            let _ = match node {
                Node::File(bytes) => std::fs::write(path, bytes),
                Node::Link(target) => symlink(target, path),
            };
        }
        // A tree with links that lead nowhere or in circles is refused; other tests cover that.
        if let Ok(carton) = pack(&folder, "out.carton", &PackageInput::new(metadata(""), folder.path("m"))) {
            let expected = read_all(&folder.path("m"));
            let package = open(&carton).unwrap();
            package.contents().unpack(&folder.path("unpacked"), &Context::default()).unwrap();
            prop_assert_eq!(read_all(&folder.path("unpacked/model")), expected);
        }
    }
}

//! A launcher and nothing else, for hosts whose own program is none.

fn main() {
    carton_sandbox::launcher_main();
    eprintln!("carton-launcher confines runners of Carton, which starts it by itself. It has no use on its own.");
    std::process::exit(2);
}

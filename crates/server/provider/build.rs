//! Linking of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The server unloads the library at the end; thread-local destructors of its threads may still
    // point into it, so the code stays mapped. Symbols need no list here: the compiler exports from
    // a cdylib only what is `no_mangle`, in the boundary's `exports` and `services` (a test checks
    // it).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

//! The boundary between a page and the simulator, built for `wasm32-unknown-unknown` (`make
//! playground`). The script of `page.html` calls these functions with numbers, and reads the text
//! that the last one has left. There is one group, and one thread.
#![deny(unsafe_code)]

use std::cell::RefCell;

use synod_sim::playground::Playground;

thread_local! {
    static GROUP: RefCell<Option<Playground>> = const { RefCell::new(None) };
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

fn with_group(act: impl FnOnce(&mut Playground)) {
    GROUP.with_borrow_mut(|group| group.as_mut().map(act));
}

/// Exports functions by their names, which no other function of the module has: all begin with
/// `synod_`.
macro_rules! exported {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: u32),*) $(-> $answer:ty)? $body:block
    )*) => {$(
        $(#[$doc])*
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: u32),*) $(-> $answer)? $body
    )*};
}

exported! {
    /// Forms a group in place of the one there was.
    fn synod_form(seed: u32, members: u32) {
        // A panic ends the module; the page shows this text then.
        std::panic::set_hook(Box::new(|info| TEXT.set(info.to_string())));
        let group = Playground::new(seed.into(), members as usize);
        GROUP.set(Some(group));
    }

    /// Lets microseconds pass.
    fn synod_run(us: u32) {
        with_group(|group| group.run(us.into()));
    }

    /// Follows an order, named by its letter, about a member; zero: about all. Zero: no such order.
    fn synod_follow(letter: u32, member: u32) -> u32 {
        let mut is_known = false;
        let order = char::from_u32(letter).unwrap_or_default();
        with_group(|group| is_known = group.follow(order, member as usize));
        is_known.into()
    }

    /// Leaves a [`synod_sim::playground::Look`] as text, in JSON.
    fn synod_look() {
        with_group(|group| {
            let look = group.look();
            TEXT.set(serde_json::to_string(&look).expect("numbers and texts"));
        });
    }

    /// The place of the text, until the next call of another function.
    fn synod_text() -> *const u8 {
        TEXT.with_borrow(|text| text.as_ptr())
    }

    /// Length of the text, in bytes.
    fn synod_text_bytes() -> usize {
        TEXT.with_borrow(String::len)
    }
}

//! Settings that are the group's: who sets them, and how long that takes.

use wsrep_sys::*;

use crate::two_members::pair_with;

#[test]
fn saved_list_does_not_take_back_what_another_server_has_set() {
    let (one, two) = pair_with("synod.leader_weight=20");
    let saved = two.options();
    assert!(saved.contains("synod.writers = any; "), "{saved}");
    assert_eq!(one.set_options("synod.writers=leader"), WSREP_OK);
    assert_eq!(two.set_options("synod.leader_weight=70"), WSREP_OK);
    two.wait_status("synod_writers", "leader");
    two.wait_status("synod_leader_weight", "70");

    assert_eq!(two.set_options(&saved), WSREP_OK);
    assert!(two.inner.logged("synod.writers=any is ignored"));
    assert!(two.inner.logged("synod.leader_weight=20 is ignored"));
    let shown = two.options();
    assert!(shown.contains("synod.writers = leader; "), "{shown}");
    assert!(shown.contains("synod.leader_weight = 70; "), "{shown}");
    // What an order by that list would have changed is ordered after it.
    assert_eq!(two.set_options("synod.writers=leader"), WSREP_OK);
    assert_eq!(one.status("synod_writers"), "leader");

    assert_eq!(two.set_options("synod.writers=any"), WSREP_OK);
    one.wait_status("synod_writers", "any");
}

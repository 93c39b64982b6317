//! The certificate that a member is bound to, against the one that a connection in its name shows.

/// Whether a connection is that of another member: it shows another subject than the member is
/// bound to.
///
/// One that shows no certificate is not: whether a bound member may come without one is for the
/// transport to decide, which knows what this member's operator accepts. It refuses the connection,
/// or waives the certificate because the peer has the group's secret, or because connections in
/// clear are accepted. So a group can leave certificates, and have members that lack them.
pub(in crate::driver) fn is_bound_otherwise(bound: Option<&str>, shown: Option<&str>) -> bool {
    bound
        .zip(shown)
        .is_some_and(|(bound, shown)| bound != shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_subject_is_that_of_another_member() {
        let (one, two) = (Some("CN=one"), Some("CN=two"));
        assert!(is_bound_otherwise(one, two));
        assert!(!is_bound_otherwise(one, one));
        assert!(!is_bound_otherwise(None, two));
        assert!(
            !is_bound_otherwise(one, None),
            "the transport has waived it"
        );
    }
}

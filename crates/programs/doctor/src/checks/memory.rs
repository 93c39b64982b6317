//! Memory: what the server takes, and what the kernel does with it.

use crate::bytes_text;
use crate::facts::{MachineFacts, ServerFacts};
use crate::finding::{Finding, Severity, Subject};

/// More of the memory, as a percentage, should not go to the buffer pool.
const POOL_MAX_PERCENT: u64 = 75;

/// Above it, the kernel moves a server's pages out for files that it has read.
const SWAPPINESS_MAX: u64 = 10;

pub(super) fn judge(server: &ServerFacts, machine: &MachineFacts) -> Vec<Finding> {
    let found = [
        buffer_pool(server, machine),
        swap(machine),
        huge_pages(machine),
    ];
    let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
    if findings.is_empty() {
        findings.push(Finding::good(Subject::Memory, "memory fits"));
    }
    findings
}

fn buffer_pool(server: &ServerFacts, machine: &MachineFacts) -> Option<Finding> {
    let memory = machine.memory_bytes?;
    let pool = server.number("innodb_buffer_pool_size")?;
    (pool > memory / 100 * POOL_MAX_PERCENT).then(|| {
        Finding::new(
            Subject::Memory,
            Severity::Warning,
            format!(
                "the buffer pool has {} of {}",
                bytes_text(pool),
                bytes_text(memory)
            ),
            "large write sets, appliers and full copies need memory, too: the kernel may kill the \
             server",
            format!(
                "innodb_buffer_pool_size = {}M",
                (memory / 100 * POOL_MAX_PERCENT) >> 20
            ),
        )
    })
}

fn swap(machine: &MachineFacts) -> Option<Finding> {
    let swappiness = machine
        .swappiness
        .filter(|swappiness| *swappiness > SWAPPINESS_MAX)?;
    Some(Finding::new(
        Subject::Memory,
        Severity::Note,
        format!("vm.swappiness is {swappiness}"),
        "a server whose memory was swapped out answers late, and may lose leadership",
        "echo 'vm.swappiness = 1' > /etc/sysctl.d/60-mariadb.conf && sysctl --system",
    ))
}

fn huge_pages(machine: &MachineFacts) -> Option<Finding> {
    let always = machine.huge_pages.as_deref() == Some("always");
    always.then(|| {
        Finding::new(
            Subject::Memory,
            Severity::Note,
            "transparent huge pages are always on",
            "the server's memory grows more than it uses, and making the pages stalls it now and \
             then",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (and at boot)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_judged_by_what_is_known() {
        let mut server = ServerFacts::default();
        server.variables.insert(
            "innodb_buffer_pool_size".to_owned(),
            (8_u64 << 30).to_string(),
        );
        let machine = MachineFacts {
            memory_bytes: Some(8 << 30),
            swappiness: Some(60),
            huge_pages: Some("always".to_owned()),
            ..MachineFacts::default()
        };
        let found = judge(&server, &machine);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].remedy, "innodb_buffer_pool_size = 6143M");
        assert_eq!(
            judge(&server, &MachineFacts::default())[0].severity,
            Severity::Good
        );
    }
}

//! Faults under long loads, disks that hang or lose their power, long copies, and an upgrade.

mod load;
mod long_copy;
mod power_loss;
mod sick_disk;
mod upgrade;

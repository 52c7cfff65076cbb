//! What a quiet day costs: five hosts in steady state for 24 simulated hours, on one core.
//!
//! The operator looks at each host every minute, Ironic asks each BMC for its power state every two: nothing happens,
//! a hundred thousand times.
//!
//! `cargo bench --bench day`

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::{io::Write as _, time::Instant};

use baremetal_operator::regression::Regressions;
use bmsim::{scenario::Scenario, simulate};

const DAY: &str = r#"
about = "Five hosts and nothing to do."
duration = "24h"

[[image_cache]]
name = "images"
images = [{ name = "linux.qcow2" }]

[[host]]
name = "node-0"
image = "linux.qcow2"
state = "provisioned"

[[host]]
name = "node-1"
bmc = "redfish"
image = "linux.qcow2"
state = "provisioned"

[[host]]
name = "node-2"
bmc = "ipmi"
image = "linux.qcow2"
state = "provisioned"

[[host]]
name = "node-3"
state = "available"

[[host]]
name = "node-4"
state = "externally-provisioned"

[[expect]]
never = { host = "*", error = "any" }
"#;

fn main() {
    let scenario = Scenario::read("day.toml", DAY.as_bytes().to_vec()).expect("a valid scenario");
    // The median of three.
    let mut runs = [(); 3].map(|()| {
        let began = Instant::now();
        let report = simulate(&scenario, scenario.seed, &Regressions::default());
        assert!(report.passed(), "{}", report.findings());
        (began.elapsed().as_secs_f64(), report.simulated().as_secs_f64())
    });
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (wall, simulated) = runs[1];
    // Nothing can be done about a closed standard output.
    let _ = writeln!(
        std::io::stdout(),
        "5 hosts, 24 h of steady state: {wall:.2} s, {:.0} simulated s per s",
        simulated / wall
    );
}

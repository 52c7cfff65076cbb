//! The machine without a network: a script of commands against it, and what is to be seen at each moment.

use std::{collections::BTreeMap, time::Duration};

use wire::Seed;

use super::*;
use crate::{Disk, timings::Span};

const SECOND: u64 = 1000;

/// Times that are easy to add up: on 1 s, off 2 s, self test 10 s, ramdisk 60 s, system 20 s, shutdown 5 s, retry 30 s.
fn timings() -> Timings {
    let exactly = |seconds| Span::new(Duration::from_secs(seconds), Duration::from_secs(seconds));
    Timings {
        power_on: exactly(1),
        power_off: exactly(2),
        post: exactly(10),
        ramdisk: exactly(60),
        system: exactly(20),
        shutdown: exactly(5),
        retry: exactly(30),
    }
}

fn image() -> DiskContent {
    DiskContent::Image { digest: "sha256:1".to_owned(), url: "http://images/os".to_owned() }
}

fn build() -> Build {
    Build {
        inventory: Inventory::default(),
        mac: MacAddress::new([2, 0, 0, 0, 0, 1]),
        timings: timings(),
        boot_order: vec![BootSource::Hdd, BootSource::Pxe],
        has_boot_server: false,
        ignores_soft_off: false,
        powered: false,
        disk: DiskContent::Blank,
    }
}

fn machine(build: Build) -> Machine {
    Machine::new(build, Seed(1).stream("machine", "test"))
}

fn at(millis: u64) -> Instant {
    Instant(Duration::from_millis(millis))
}

fn ramdisk() -> Ramdisk {
    Ramdisk { url: "http://ironic/ramdisk".to_owned(), parameters: BTreeMap::new() }
}

fn cd() -> Medium {
    Medium {
        image: "http://user:secret@ironic/boot.iso?token=1".to_owned(),
        login: None,
        write_protected: true,
    }
}

fn boot_from(source: BootSource, hold: Hold) -> BootSettings {
    BootSettings { instead: Some(Override { source, hold, lapses: None }), ..BootSettings::default() }
}

fn loads(machine: &mut Machine) -> Vec<(u64, Load)> {
    let events = machine.take_events().into_iter();
    events
        .filter_map(|event| if let Event::Load { boot, what } = event { Some((boot, what)) } else { None })
        .collect()
}

fn notes(machine: &mut Machine, wanted: &str) -> Vec<String> {
    let events = machine.take_events().into_iter();
    events
        .filter_map(|event| match event {
            Event::Note { topic, data } if topic == wanted => Some(data.to_string()),
            Event::Note { .. }
            | Event::Load { .. }
            | Event::Start { .. }
            | Event::Supply { .. }
            | Event::Stop => None,
        })
        .collect()
}

/// Power, as seen at each moment after commands at some of them.
#[test]
fn power_takes_its_time() {
    use Control::{ForceOff, ForceRestart, On, PowerCycle, PushButton, SoftOff};
    use Power::{Off, PoweringOff, PoweringOn};
    type Script = &'static [(u64, Option<Control>, Power)];
    let cases: [(&str, Script); 7] = [
        ("on", &[(0, Some(On), PoweringOn), (999, None, PoweringOn), (1000, None, Power::On)]),
        (
            "off",
            &[
                (0, Some(On), PoweringOn),
                (5000, Some(ForceOff), PoweringOff),
                (6999, None, PoweringOff),
                (7000, None, Off),
                (8000, Some(ForceOff), Off),
            ],
        ),
        (
            "on while going off waits for off",
            &[
                (0, Some(On), PoweringOn),
                (5000, Some(ForceOff), PoweringOff),
                (6000, Some(On), PoweringOff),
                (7000, None, PoweringOn),
                (8000, None, Power::On),
            ],
        ),
        (
            "off takes an on back that is still waiting",
            &[
                (0, Some(On), PoweringOn),
                (5000, Some(ForceOff), PoweringOff),
                (6000, Some(On), PoweringOff),
                (6500, Some(ForceOff), PoweringOff),
                (9000, None, Off),
            ],
        ),
        (
            "cycle",
            &[
                (0, Some(On), PoweringOn),
                (5000, Some(PowerCycle), PoweringOff),
                (7000, None, PoweringOn),
                (8000, None, Power::On),
            ],
        ),
        ("a reset keeps the power on", &[(0, Some(On), PoweringOn), (5000, Some(ForceRestart), Power::On)]),
        (
            "nobody hears the button during the self test",
            &[
                (0, Some(PushButton), PoweringOn),
                (5000, Some(SoftOff), Power::On),
                (9000, Some(PushButton), Power::On),
                (30_000, None, Power::On),
            ],
        ),
    ];
    for (name, script) in cases {
        let mut machine = machine(build());
        for (millis, command, power) in script {
            machine.tick(at(*millis));
            if let Some(command) = command {
                machine.control(at(*millis), *command, By::Redfish).unwrap();
            }
            assert_eq!(machine.power(), *power, "{name} at {millis} ms");
        }
    }
}

#[test]
fn what_needs_power_is_refused_without() {
    for command in [Control::ForceRestart, Control::PowerCycle, Control::GracefulRestart] {
        assert_eq!(
            machine(build()).control(at(0), command, By::Ipmi),
            Err(Refused::PowerIsOff),
            "{command:?}"
        );
    }
}

#[test]
fn a_system_on_disk_ends_when_it_is_asked() {
    for (ignores_soft_off, power) in [(false, Power::Off), (true, Power::On)] {
        let mut machine = machine(Build { powered: true, disk: image(), ignores_soft_off, ..build() });
        machine.control(at(0), Control::SoftOff, By::Redfish).unwrap();
        machine.tick(at(4999));
        assert_eq!(machine.power(), Power::On, "it is still shutting down");
        machine.tick(at(60 * SECOND));
        assert_eq!(machine.power(), power, "ignores: {ignores_soft_off}");
    }
}

#[test]
fn a_graceful_restart_boots_anew() {
    let mut machine = machine(Build { powered: true, disk: image(), ..build() });
    machine.control(at(0), Control::GracefulRestart, By::Redfish).unwrap();
    machine.tick(at(5 * SECOND));
    assert_eq!((machine.power(), machine.progress()), (Power::On, Progress::SelfTest));
    machine.tick(at(35 * SECOND));
    assert_eq!(machine.progress(), Progress::Running);
}

#[test]
fn a_virtual_cd_boots_once() {
    let mut machine = machine(Build { disk: image(), ..build() });
    machine.insert(Slot::Cd, cd(), By::Redfish);
    machine.set_boot(boot_from(BootSource::Cd, Hold::Once));
    machine.control(at(0), Control::On, By::Redfish).unwrap();
    machine.tick(at(11 * SECOND));
    assert_eq!(loads(&mut machine), [(1, Load::Medium(cd()))]);
    assert_eq!(machine.boot().instead, None, "the override is used up");

    machine.loaded(at(12 * SECOND), 1, Ok(ramdisk()));
    assert_eq!(machine.progress(), Progress::Starting);
    machine.tick(at(72 * SECOND));
    assert_eq!(machine.progress(), Progress::Running);
    assert!(machine.take_events().contains(&Event::Start { boot: 1, ramdisk: ramdisk() }));

    machine.control(at(80 * SECOND), Control::ForceRestart, By::Redfish).unwrap();
    assert!(machine.take_events().contains(&Event::Stop), "the ramdisk is gone");
    machine.tick(at(90 * SECOND));
    let booted = notes(&mut machine, "boot");
    assert_eq!(booted, [r#"{"digest":"sha256:1","disk":"/dev/sda","source":"hdd","what":"disk"}"#]);
}

#[test]
fn a_continuous_override_holds() {
    let mut machine = machine(build());
    machine.insert(Slot::Cd, cd(), By::Redfish);
    machine.set_boot(boot_from(BootSource::Cd, Hold::Continuous));
    machine.control(at(0), Control::On, By::Redfish).unwrap();
    for boot in 1..4 {
        machine.tick(at(boot * 20 * SECOND));
        assert_eq!(loads(&mut machine), [(boot, Load::Medium(cd()))]);
        machine.control(at(boot * 20 * SECOND), Control::ForceRestart, By::Redfish).unwrap();
    }
}

#[test]
fn what_cannot_be_loaded_gives_way_to_the_next_source() {
    let mut machine = machine(Build { has_boot_server: true, disk: image(), ..build() });
    machine.set_boot(boot_from(BootSource::Pxe, Hold::Once));
    machine.control(at(0), Control::On, By::Redfish).unwrap();
    machine.tick(at(11 * SECOND));
    assert_eq!(loads(&mut machine), [(1, Load::Pxe(MacAddress::new([2, 0, 0, 0, 0, 1])))]);
    machine.loaded(at(12 * SECOND), 1, Err("get the file".to_owned()));
    let booted = notes(&mut machine, "boot");
    assert_eq!(booted.len(), 2);
    assert_eq!(booted[0], r#"{"reason":"get the file","source":"pxe","what":"failed"}"#);
    assert!(booted[1].contains(r#""what":"disk""#));
}

#[test]
fn an_answer_to_an_earlier_boot_changes_nothing() {
    let mut machine = machine(Build { has_boot_server: true, ..build() });
    machine.control(at(0), Control::On, By::Redfish).unwrap();
    machine.tick(at(11 * SECOND));
    assert_eq!(loads(&mut machine).len(), 1);
    machine.control(at(12 * SECOND), Control::ForceRestart, By::Redfish).unwrap();
    machine.tick(at(22 * SECOND));
    assert_eq!(loads(&mut machine).len(), 1);
    machine.loaded(at(23 * SECOND), 1, Ok(ramdisk()));
    assert_eq!(machine.progress(), Progress::Loading);
    machine.loaded(at(24 * SECOND), 2, Ok(ramdisk()));
    assert_eq!(machine.progress(), Progress::Starting);
}

#[test]
fn a_blank_machine_looks_again_and_tells_it_once() {
    let mut machine = machine(build());
    machine.control(at(0), Control::On, By::Redfish).unwrap();
    machine.tick(at(300 * SECOND));
    assert_eq!(machine.power(), Power::On);
    assert_eq!(notes(&mut machine, "boot"), [r#"{"what":"nothing"}"#]);
    assert_eq!(machine.due(), Some(at(311 * SECOND)), "it looks again each 30 s");
}

#[test]
fn boot_flags_lapse_unless_the_machine_starts() {
    let lapsing = || BootSettings {
        instead: Some(Override { source: BootSource::Pxe, hold: Hold::Once, lapses: Some(at(60 * SECOND)) }),
        ..BootSettings::default()
    };
    let mut idle = machine(Build { has_boot_server: true, ..build() });
    idle.set_boot(lapsing());
    idle.tick(at(59 * SECOND));
    assert!(idle.boot().instead.is_some());
    idle.tick(at(60 * SECOND));
    assert_eq!(idle.boot().instead, None);

    let mut started = machine(Build { has_boot_server: true, disk: image(), ..build() });
    started.set_boot(lapsing());
    started.control(at(55 * SECOND), Control::On, By::Ipmi).unwrap();
    started.tick(at(70 * SECOND));
    assert_eq!(loads(&mut started).len(), 1, "the flags were heeded at 66 s, having been there at 56 s");
}

#[test]
fn software_acts_on_its_own_boot_alone() {
    let disks = vec![Disk::default(), Disk { name: "/dev/sdb".to_owned(), ..Disk::default() }];
    let inventory = Inventory { disks, ..Inventory::default() };
    let mut machine = machine(Build { inventory, powered: true, disk: image(), ..build() });
    machine.fill_disk(1, "/dev/sdb", image()).unwrap();
    machine.fill_disk(1, "/dev/sda", DiskContent::Wiped).unwrap();
    let missing = SoftwareError::NoSuchDisk { name: "/dev/sdc".to_owned() };
    assert_eq!(machine.fill_disk(1, "/dev/sdc", DiskContent::Wiped), Err(missing));
    let held: Vec<_> = machine.disks().map(|(name, content)| (name.to_owned(), content.clone())).collect();
    assert_eq!(held, [("/dev/sda".to_owned(), DiskContent::Wiped), ("/dev/sdb".to_owned(), image())]);

    machine.control(at(0), Control::ForceRestart, By::Redfish).unwrap();
    assert_eq!(machine.fill_disk(1, "/dev/sda", image()), Err(SoftwareError::Gone));
    assert_eq!(machine.software_ends(at(0), 1, false), Err(SoftwareError::Gone));
}

#[test]
fn software_switches_off() {
    let mut machine = machine(Build { powered: true, disk: image(), ..build() });
    machine.software_ends(at(0), 1, false).unwrap();
    machine.software_ends(at(3 * SECOND), 1, false).unwrap();
    machine.tick(at(7 * SECOND));
    assert_eq!(machine.power(), Power::Off, "the second request does not prolong it");
    let power = notes(&mut machine, "power");
    assert_eq!(
        power,
        [
            r#"{"by":"software","event":"changed","from":"on","to":"powering-off"}"#,
            r#"{"by":"software","event":"changed","from":"powering-off","to":"off"}"#,
        ]
    );
}

#[test]
fn the_journal_holds_no_secrets() {
    let mut machine = machine(build());
    machine.insert(Slot::Cd, cd(), By::Redfish);
    machine.eject(Slot::Cd, By::Redfish);
    machine.eject(Slot::Cd, By::Redfish);
    assert_eq!(
        notes(&mut machine, "media"),
        [
            r#"{"by":"redfish","event":"inserted","image":"http://ironic/boot.iso","slot":"Cd"}"#,
            r#"{"by":"redfish","event":"ejected","slot":"Cd"}"#,
        ]
    );
    for (url, shown) in
        [("http://u:p@h", "http://h"), ("http://h/a@b", "http://h/a@b"), ("u:p", "u:p"), ("", "")]
    {
        assert_eq!(without_login(url), shown);
    }
}

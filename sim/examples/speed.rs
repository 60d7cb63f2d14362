use consort_sim::setup::*;
fn main() {
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let secs: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let p = 1_000_000_000u64 / 24;
    let setup = Setup {
        machine: Machine::simple(1, 1, Kernel::V7_2),
        tunables: Tunables::default(),
        costs: Costs::default(),
        seed: 1,
        duration_ns: secs * 1_000_000_000,
        cgroups: vec![Cgroup {
            name: "/".into(),
            parent: None,
            weight: 100,
        }],
        domains: vec![Domain {
            name: "d".into(),
            event_ns: 1_200_000,
            order: 0,
            preempt: false,
        }],
        tasks: (0..n)
            .map(|i| Task {
                name: format!("p{i}"),
                cgroup: 0,
                nice: 0,
                policy: Policy::Normal,
                affinity: None,
                start_ns: Some(0),
                program: Program::Player(Player {
                    load: 1.0 / 6.5,
                    chunk_ns: 1_000_000,
                    seed: 1 + i,
                    first_due_ns: 500_000_000 + p + (i + 1) * p / n,
                    domain: Some(0),
                }),
            })
            .collect(),
        actions: vec![],
        faults: Faults::default(),
    };
    let t = std::time::Instant::now();
    let o = consort_sim::run(&setup, consort_sim::consort(), &mut ()).unwrap();
    let e = t.elapsed().as_secs_f64();
    println!(
        "{} decisions in {e:.3} s: {:.0}/s, {:.1} guest s/s {:?}",
        o.decisions,
        o.decisions as f64 / e,
        secs as f64 / e,
        o.violation.map(|v| v.detail)
    );
}

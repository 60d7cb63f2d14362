use consort_sim::setup::*;
fn main() {
    let mut tasks: Vec<Task> = (0..2)
        .map(|i| Task {
            name: format!("h{i}"),
            cgroup: 0,
            nice: 0,
            policy: Policy::Normal,
            affinity: None,
            start_ns: Some(i * 2_000_000_000),
            program: Program::Hog,
        })
        .collect();
    tasks.push(Task {
        name: "s".into(),
        cgroup: 0,
        nice: 0,
        policy: Policy::Normal,
        affinity: None,
        start_ns: Some(0),
        program: Program::Steps(vec![
            Step::Sleep(Length::Fixed(1_000_000_000)),
            Step::Run(Length::Fixed(600_000_000)),
        ]),
    });
    for n in [2, 3] {
        let setup = Setup {
            machine: Machine::simple(1, 1, Kernel::V7_2),
            tunables: Tunables::default(),
            costs: Costs::default(),
            seed: 1,
            duration_ns: 5_000_000_000,
            cgroups: vec![Cgroup {
                name: "/".into(),
                parent: None,
                weight: 100,
            }],
            domains: vec![],
            tasks: tasks[..n].to_vec(),
            actions: vec![],
            faults: Faults::default(),
        };
        let o = consort_sim::run(&setup, consort_sim::consort(), &mut ()).unwrap();
        println!("{:#?} {:?}", o.tasks, o.violation.map(|v| v.detail));
    }
}

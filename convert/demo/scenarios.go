package demo

// scenarios say what happens in each trace. Together they have every shape that the public v8 set is known to have; the last
// two have shapes that it lacks. demo_test.go asserts the shape of each, by its name.
var scenarios = []struct {
	name string
	run  func(p *lane)
}{
	// Pure appends: every prompt is a prefix of the next.
	{"append", func(p *lane) {
		p.start(1900)
		p.growTimes(8)
	}},

	// Pure appends, streamed. One response has no time of its first token.
	{"stream", func(p *lane) {
		p.streamed = true
		p.start(2600)
		p.growTimes(4)
		p.grow(310).TTFT = nil
		p.growTimes(4)
	}},

	// No prompt ends with a whole block, and sometimes the last whole block changes.
	{"churn", func(p *lane) {
		p.start(2333)
		for range 4 {
			p.edit(70, 95)
			p.grow(207)
		}
		p.edit(66, 67)
	}},

	// Edits at the end: less than a tenth of the prompt is replaced.
	{"edit", func(p *lane) {
		p.start(3700)
		p.growTimes(3)
		p.edit(400, 610)
		p.growTimes(2)
		p.edit(250, 90)
		p.growTimes(2)
	}},

	// Edits that remove more than a tenth of the prompt.
	{"pullback", func(p *lane) {
		p.start(4100)
		p.growTimes(5)
		p.cutBack(35, 480)
		p.growTimes(3)
		p.cutBack(60, 1300)
		p.growTimes(2)
	}},

	// A reset: the next prompt shares nothing with the one before. The model stays the same.
	{"reset", func(p *lane) {
		p.start(2900)
		p.growTimes(4)
		p.reset(2450)
		p.growTimes(5)
	}},

	// A retry: the same prompt twice.
	{"twice", func(p *lane) {
		p.start(400)
		p.growTimes(3)
		p.repeat()
		p.growTimes(3)
	}},

	// Prompts that end with a whole block, one and several in a row, and a response of no tokens.
	{"aligned", func(p *lane) {
		p.start(3000)
		p.align(4)
		p.growTimes(2)
		p.align(1)
		p.align(9)
		p.grow(700).outputs(0)
		p.growTimes(2)
	}},

	// Requests without api_time, after which think_time counts from the start of the request before, and requests without
	// think_time.
	{"gaps", func(p *lane) {
		p.start(2200)
		p.grow(400).noAPITime()
		p.grow(820).noAPITime()
		p.grow(140)
		p.grow(390).noThinkTime()
		p.grow(275).noAPITime().noThinkTime()
		p.grow(515).streamed().noAPITime()
		p.growTimes(2)
	}},

	// Two subagents in parallel, with the same system prompt. The parent waits for both.
	{"siblings", func(p *lane) {
		p.start(3300)
		p.growTimes(2)
		p.spawn(explore, func(c *lane) { c.start(900); c.growTimes(3) })
		p.spawn(explore, func(c *lane) { c.start(1240); c.growTimes(4) })
		p.growTimes(4)
	}},

	// A late join: the parent joins the subagent some turns after the spawn.
	{"late-join", func(p *lane) {
		p.start(2750)
		p.growTimes(2)
		p.fork(general, func(c *lane) { c.start(1500); c.growTimes(6) })
		p.growTimes(8)
	}},

	// A background subagent that the parent never joins, and that runs during several turns.
	{"background", func(p *lane) {
		p.start(3050)
		p.growTimes(1)
		p.forkAsync(planner, func(c *lane) { c.start(2100); c.growTimes(7) })
		p.growTimes(7)
	}},

	// Two models: short requests to another model between the turns, streamed and not.
	{"models", func(p *lane) {
		p.start(4400)
		p.sideRequest(small, 540)
		p.growTimes(3)
		p.grow(600).streamed()
		p.sideRequest(small, 1130).streamed()
		p.growTimes(3)
	}},

	// A gap in the ids: a request with many new blocks is missing in the record, and the next prompt does not have them.
	{"hole", func(p *lane) {
		p.start(2500)
		p.growTimes(3)
		p.cutFromRecord(p.grow(7000))
		p.edit(7000, 350)
		p.growTimes(4)
	}},

	// Not in the public set: a subagent that begins with its parent's prompt, and so shares ids with it.
	{"family", func(p *lane) {
		p.start(2000)
		p.growTimes(3)
		p.spawn(clone, func(c *lane) { c.grow(260); c.growTimes(3) })
		p.growTimes(3)
	}},

	// Not in the public set: most shapes in one long trace.
	{"everything", func(p *lane) {
		p.start(4600)
		p.sideRequest(small, 470)
		p.growTimes(2)
		p.spawn(explore, func(c *lane) { c.start(800); c.growTimes(2) })
		p.spawn(explore, func(c *lane) { c.start(660); c.growTimes(1) })
		p.grow(3900).streamed()
		p.forkAsync(general, func(c *lane) { c.start(1800); c.growTimes(4) })
		p.edit(310, 505)
		p.fork(clone, func(c *lane) { c.grow(120); c.growTimes(2) })
		p.grow(2200).noAPITime()
		p.cutBack(45, 760)
		p.grow(180).outputs(0)
		p.repeat()
		p.reset(3100)
		p.align(12)
		p.growTimes(2)
	}},
}

package demo

// The stories, one trace each. Between them they hold every shape that the public v8 set is known for; the last two are
// ours. demo_test.go asserts each shape under the name of its story.
var stories = []struct {
	name string
	tell func(p *lane)
}{
	// Pure appends: every prompt is a prefix of the next.
	{"append", func(p *lane) {
		p.start(1900)
		p.work(8)
	}},

	// The same, streamed; one answer whose first token was not timed.
	{"stream", func(p *lane) {
		p.streams = true
		p.start(2600)
		p.work(4)
		p.grow(310).TTFT = nil
		p.work(4)
	}},

	// Tail churn: no prompt ends with a block, and now and then the last block is another one.
	{"churn", func(p *lane) {
		p.start(2333)
		for range 4 {
			p.edit(70, 95)
			p.grow(207)
		}
		p.edit(66, 67)
	}},

	// Edits of the tail: less than a tenth of the prompt is taken back and written anew.
	{"edit", func(p *lane) {
		p.start(3700)
		p.work(3)
		p.edit(400, 610)
		p.work(2)
		p.edit(250, 90)
		p.work(2)
	}},

	// Pull-backs of more than a tenth.
	{"pullback", func(p *lane) {
		p.start(4100)
		p.work(5)
		p.pullback(35, 480)
		p.work(3)
		p.pullback(60, 1300)
		p.work(2)
	}},

	// A full reset, with the model unchanged: nothing of the old prompt is left.
	{"reset", func(p *lane) {
		p.start(2900)
		p.work(4)
		p.reset(2450)
		p.work(5)
	}},

	// An identical prompt twice: a retry.
	{"twice", func(p *lane) {
		p.start(400)
		p.work(3)
		p.again()
		p.work(3)
	}},

	// Prompts that end with a block, alone and in a row, and an answer of no tokens.
	{"aligned", func(p *lane) {
		p.start(3000)
		p.align(4)
		p.work(2)
		p.align(1)
		p.align(9)
		p.grow(700).outputs(0)
		p.work(2)
	}},

	// The recorder's gaps: requests without api_time, after which think_time counts from the request before, and
	// some without think_time.
	{"gaps", func(p *lane) {
		p.start(2200)
		p.grow(400).noAPITime()
		p.grow(820).noAPITime()
		p.grow(140)
		p.grow(390).noThinkTime()
		p.grow(275).noAPITime().noThinkTime()
		p.grow(515).streamed().noAPITime()
		p.work(2)
	}},

	// Siblings: two subagents side by side, with the same system prompt; the parent waits for both.
	{"siblings", func(p *lane) {
		p.start(3300)
		p.work(2)
		p.spawn(explore, func(c *lane) { c.start(900); c.work(3) })
		p.spawn(explore, func(c *lane) { c.start(1240); c.work(4) })
		p.work(4)
	}},

	// A late join: the subagent reports back some turns after the one that sent it.
	{"late-join", func(p *lane) {
		p.start(2750)
		p.work(2)
		p.fork(general, func(c *lane) { c.start(1500); c.work(6) })
		p.work(8)
	}},

	// A background agent that nobody waits for and that outlives several turns.
	{"background", func(p *lane) {
		p.start(3050)
		p.work(1)
		p.launch(planner, func(c *lane) { c.start(2100); c.work(7) })
		p.work(7)
	}},

	// Two models: small questions to another one between the turns, streamed and not.
	{"models", func(p *lane) {
		p.start(4400)
		p.aside(small, 540)
		p.work(3)
		p.grow(600).streamed()
		p.aside(small, 1130).streamed()
		p.work(3)
	}},

	// A hole in the ids: a request that read much was cut from the record, and the next one did not keep what it read.
	{"hole", func(p *lane) {
		p.start(2500)
		p.work(3)
		p.lost(p.grow(7000))
		p.edit(7000, 350)
		p.work(4)
	}},

	// Not in the public set: a child that begins with its parent's prompt and so shares its ids.
	{"family", func(p *lane) {
		p.start(2000)
		p.work(3)
		p.spawn(clone, func(c *lane) { c.grow(260); c.work(3) })
		p.work(3)
	}},

	// Not in the public set either: a bit of everything in one long session.
	{"everything", func(p *lane) {
		p.start(4600)
		p.aside(small, 470)
		p.work(2)
		p.spawn(explore, func(c *lane) { c.start(800); c.work(2) })
		p.spawn(explore, func(c *lane) { c.start(660); c.work(1) })
		p.grow(3900).streamed()
		p.launch(general, func(c *lane) { c.start(1800); c.work(4) })
		p.edit(310, 505)
		p.fork(clone, func(c *lane) { c.grow(120); c.work(2) })
		p.grow(2200).noAPITime()
		p.pullback(45, 760)
		p.grow(180).outputs(0)
		p.again()
		p.reset(3100)
		p.align(12)
		p.work(2)
	}},
}

package conductor_test

import (
	"fmt"
	"time"

	"github.com/agentx/agentx/replay/conductor"
)

// oneTree gives its tree to the first lane that asks.
type oneTree struct{ tree *conductor.Tree }

func (s *oneTree) Next(int) (conductor.Assignment, bool) {
	tree := s.tree
	s.tree = nil
	return conductor.Assignment{Tree: tree}, tree != nil
}

// A session of two turns on a virtual clock: the second is due two seconds after the first has returned.
func Example() {
	tree := &conductor.Tree{Sessions: []conductor.Session{{Turns: []conductor.Turn{{}, {Delay: 2 * time.Second}}}}}
	if err := tree.Validate(); err != nil {
		panic(err)
	}
	var inFlight []conductor.Dispatch
	launch := func(d conductor.Dispatch) error {
		fmt.Printf("%v: lane %d sends turn %d\n", d.Issued, d.Lane, d.Turn)
		inFlight = append(inFlight, d)
		return nil
	}
	c := conductor.New(1, &oneTree{tree}, conductor.Limits{}, launch, nil)
	now := time.Duration(0)
	if err := c.Start(now); err != nil {
		panic(err)
	}
	for !c.Done() {
		if at, ok := c.NextWake(); ok {
			now = at
			c.Wake(now)
			continue
		}
		d := inFlight[0] // every request takes 5 s
		inFlight, now = inFlight[1:], d.Issued+5*time.Second
		if err := c.Returned(d.ID, now, now, conductor.OK); err != nil {
			panic(err)
		}
	}
	fmt.Printf("%v: %d requests, %d tree drained\n", now, c.Counts().Sent, c.Counts().TreesDrained)
	// Output:
	// 0s: lane 0 sends turn 0
	// 7s: lane 0 sends turn 1
	// 12s: 2 requests, 1 tree drained
}

package workload

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// Turn is a request as a load releases it.
type Turn struct {
	ID      int // names this turn to Completed
	Session int // in file order, from 0
	Number  int // within the session, from 0
	Prompt  int // tokens
	Output  int // tokens, at least 1
	Chain   []engine.Run
}

// Load releases turns. Its times are nanoseconds of virtual time, which never runs backward.
type Load interface {
	// Next returns when the next turn is ready that no completion has to make ready; ok is false without one.
	Next() (at int64, ok bool)
	// Release takes the next turn that is ready at now, in the order in which turns leave; ok is false without one. Its arrival is now.
	Release(now int64) (t Turn, ok bool)
	// Completed says that a turn has ended at now, rejected or not, which may make others ready.
	Completed(id int, now int64)
	// Left returns how many turns have not been released, those that wait for a completion included.
	Left() int
}

// Refuser is a load whose sessions do not go on after a turn that no worker can hold. It is told by Refused instead of Completed.
type Refuser interface {
	Refused(id int, now int64)
}

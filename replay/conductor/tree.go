package conductor

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Tree is the plan of a trace: offsets, deadlines and predecessors with every option applied. The conductor does not change
// it, so lanes may share one.
type Tree struct {
	Sessions []Session // the root first, parents before their children
	Branches []Branch
	Absolute bool // turns are due at their recorded instants, or when what they follow is done, whichever is later
}

// Session is one conversation.
type Session struct {
	Turns      []Turn
	Branch     int           // that it belongs to; not used for the root
	Depth      int           // 0 for the root
	Rank       int           // place in the order of names
	OnIssue    bool          // Offset counts from the issue of the turn that spawns it, else from its return
	Offset     time.Duration // when its first turn is due
	Unplayable bool          // it counts as failed as soon as its branch is spawned
}

// Turn is one request.
type Turn struct {
	Delay     time.Duration // from the return of the turn before
	JoinDelay time.Duration // from there, the earliest time of a turn that joins branches
	At        time.Duration // of an Absolute tree, for delays and offsets: from its arrival or opening. The root's first turn has none
	Spawns    []int         // branches
	Joins     []int         // branches of the same session that must be done before it
	After     []TurnRef     // turns of other sessions that must be done before it: its recorded predecessors
}

// Branch is a group of sessions that one turn spawns.
type Branch struct {
	Parent, Spawn int   // session and turn that spawn it
	Sessions      []int // its children
	OnIssue       bool  // a child counts from the issue of that turn: then all are spawned at the issue
}

// TurnRef names a turn of a tree.
type TurnRef struct{ Session, Turn int }

// Validate returns an error about a tree that cannot be played: an index out of range, a session in no branch or in two, or a
// turn that waits for a branch that is spawned after it.
func (t *Tree) Validate() error {
	if len(t.Sessions) == 0 || len(t.Sessions[0].Turns) == 0 {
		return errors.New("the root session has no request")
	}
	if err := t.validateBranches(); err != nil {
		return err
	}
	spawned := make([]int, len(t.Branches)) // by branch: turns that spawn it
	for n, s := range t.Sessions {
		if len(s.Turns) == 0 && !s.Unplayable {
			return fmt.Errorf("session %d has no request", n)
		}
		for k := range s.Turns {
			if err := t.validateTurn(n, k, spawned); err != nil {
				return fmt.Errorf("session %d, turn %d: %w", n, k, err)
			}
		}
	}
	for b, times := range spawned {
		if times != 1 {
			return fmt.Errorf("branch %d is spawned by %d turns: want one", b, times)
		}
	}
	return nil
}

// validateBranches checks that every session but the root is in one branch, behind its parent.
func (t *Tree) validateBranches() error {
	seen := make([]bool, len(t.Sessions))
	for b, br := range t.Branches {
		if !inRange(br.Parent, len(t.Sessions)) {
			return fmt.Errorf("branch %d: its parent is session %d: want one of the %d sessions, from 0", b, br.Parent, len(t.Sessions))
		}
		if turns := len(t.Sessions[br.Parent].Turns); !inRange(br.Spawn, turns) {
			return fmt.Errorf("branch %d: turn %d of session %d spawns it: want one of its %d turns, from 0", b, br.Spawn, br.Parent, turns)
		}
		for _, n := range br.Sessions {
			switch {
			case n <= br.Parent || n >= len(t.Sessions):
				return fmt.Errorf("branch %d: its child is session %d: want one from %d to %d, behind its parent", b, n, br.Parent+1, len(t.Sessions)-1)
			case t.Sessions[n].Branch != b:
				return fmt.Errorf("branch %d: session %d is in it, but names branch %d as its own", b, n, t.Sessions[n].Branch)
			case seen[n]:
				return fmt.Errorf("branch %d: session %d is in it twice: list it once", b, n)
			case t.Sessions[n].OnIssue && !br.OnIssue:
				return fmt.Errorf("branch %d: session %d counts from the issue of its spawning turn, its branch from the return: set OnIssue of the branch, too", b, n)
			}
			seen[n] = true
		}
	}
	if n := slices.Index(seen[1:], false); n >= 0 {
		return fmt.Errorf("session %d is in no branch: every session but the root needs one", n+1)
	}
	return nil
}

// validateTurn checks what a turn spawns, joins and comes after. It counts the branches that the turn spawns.
func (t *Tree) validateTurn(session, turn int, spawned []int) error {
	u := t.Sessions[session].Turns[turn]
	for _, b := range u.Spawns {
		if !inRange(b, len(t.Branches)) || t.Branches[b].Parent != session || t.Branches[b].Spawn != turn {
			return fmt.Errorf("it spawns branch %d, which names another turn", b)
		}
		spawned[b]++
	}
	for _, b := range u.Joins {
		if !inRange(b, len(t.Branches)) || t.Branches[b].Parent != session || t.Branches[b].Spawn >= turn {
			return fmt.Errorf("it joins branch %d, which no turn before it spawns: it could never be sent", b)
		}
	}
	for _, r := range u.After {
		switch {
		case r.Session == session:
			return fmt.Errorf("it comes after turn %d of its own session: want a turn of another one", r.Turn)
		case !inRange(r.Session, len(t.Sessions)):
			return fmt.Errorf("it comes after a turn of session %d: want one of the %d sessions, from 0", r.Session, len(t.Sessions))
		case !inRange(r.Turn, len(t.Sessions[r.Session].Turns)):
			return fmt.Errorf("it comes after turn %d of session %d: want one of its %d turns, from 0", r.Turn, r.Session, len(t.Sessions[r.Session].Turns))
		}
	}
	return nil
}

// inRange reports whether i is an index of n things.
func inRange(i, n int) bool { return i >= 0 && i < n }

// isDone reports whether a session sends nothing more once turnsDone of its turns are done.
func (t *Tree) isDone(n, turnsDone int) bool {
	return turnsDone > 0 && turnsDone >= len(t.Sessions[n].Turns)
}

// StartState is the state of a tree that starts in the middle (doc/spec/replay.md 2.4).
type StartState struct {
	Live      []LiveSession // sessions that have a turn to send
	TurnsDone []int         // by session: its turns that are done; all turns of one that is not live: it is not spawned
}

// LiveSession is a session of a start state.
type LiveSession struct {
	Session, Turn int           // the next turn
	Due           time.Duration // of that turn, from the opening or arrival of its tree; if parked, its deadline
	Parked        bool          // it waits for the branches that its turn joins
}

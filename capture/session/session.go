// Package session tells which session and which agent a request belongs to, and how long sessions live. It reads heads of
// requests and what capture/canon has read of bodies; it never sees a prompt. The ids that clients send are keys of maps in
// memory and are shown nowhere. doc/spec/capture.md sections 3 and 7.2 have the rules.
package session

import (
	"container/list"

	"github.com/agentx/agentx/capture/journal"
)

// State is where a session is in its life.
type State int

// States, in the order in which a session has them.
const (
	Open     State = iota
	Closing        // nothing joins any more; requests are in flight
	Finished       // nothing is in flight
)

func (s State) String() string { return [...]string{"open", "closing", "finished"}[s] }

// Recorder is what records a session.
type Recorder interface {
	// Finish is called once, when nothing of the session is in flight any more, or when what is has to be given up. It must
	// return at once.
	Finish(why journal.Why)
}

// Session is one session. Its fields do not change; what does is the registry's.
type Session[R Recorder] struct {
	ID       string // on the admin listener, and in the path of sessions that it made
	Trace    string
	By       journal.By
	Recorder R

	key      string // in the registry
	state    State
	begun    bool
	start    int64 // instant of the first arrival
	arrived  int64 // of the last arrival
	last     int64 // of the last arrival or end of a request
	closed   int64 // when it began to close
	why      journal.Why
	requests int
	inFlight int
	resting  *list.Element // its place among those that are; nil while requests are in flight, or it is not open
	agents   map[string]int
	ids      []string // links of chains that are this session's
	held     bool     // the slot of linear sessions
}

// Ticket is the place of a request in its session.
type Ticket[R Recorder] struct {
	Session *Session[R]
	Q       int           // number of the request, in the order of arrival
	T       int64         // nanoseconds since the first arrival of the session; it never falls from request to request
	Place   journal.Place // its agent
	Marked  bool          // a mark says that a subagent asks, but not which
}

// Info is what a listener may say of a session: nothing that a client sent.
type Info struct {
	Trace    string `json:"trace"`
	State    string `json:"state"`
	Requests int    `json:"requests"`
	InFlight int    `json:"inflight"`
}

// Start returns the instant of the first arrival. It is for those who hold a ticket of the session.
func (s *Session[R]) Start() int64 { return s.start }

// agent returns the number of an agent by its id; 0 is the main agent.
func (s *Session[R]) agent(id string) int {
	if id == "" {
		return 0
	}
	n, ok := s.agents[id]
	if !ok {
		n = len(s.agents) + 1
		if s.agents == nil {
			s.agents = map[string]int{}
		}
		s.agents[id] = n
	}
	return n
}

// place returns the agent of an identity. A parent that was never seen is the main agent.
func (s *Session[R]) place(agent, parent string, via journal.Tier) journal.Place {
	if agent == "" {
		return journal.Place{}
	}
	above := s.agents[parent] // 0 where it was not seen
	p := journal.Place{Agent: s.agent(agent), Parent: above, Via: via}
	if p.Parent == p.Agent {
		p.Parent = 0
	}
	return p
}

// maxChain bounds the links from an agent to the main one.
const maxChain = 16

// resolve returns the key of the session of an identity, and its agent there. It follows a chain of parents to the first agent
// that names none; ok is false where the chain is too long or goes in a circle.
func (r *Registry[R]) resolve(id Identity) (key, agent, parent string, ok bool) {
	if !id.Chain {
		return id.Session, id.Agent, id.Parent, true
	}
	root, above := id.Agent, id.Parent
	for links := 0; above != "" && above != root; links++ {
		if links == maxChain || above == id.Agent {
			return "", "", "", false
		}
		root, above = above, r.parents[id.Session+above]
	}
	key, agent, parent = id.Session+root, id.Agent, id.Parent
	if agent == root {
		agent = ""
	}
	if parent == root {
		parent = ""
	}
	return key, agent, parent, true
}

// link remembers the parent of an agent. What an agent said first counts.
func (r *Registry[R]) link(s *Session[R], id Identity) {
	own := id.Session + id.Agent
	if _, known := r.parents[own]; !known {
		r.parents[own] = id.Parent
		s.ids = append(s.ids, own)
	}
}

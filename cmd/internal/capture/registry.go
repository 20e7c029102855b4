package capture

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// state is where a session is in its life.
type state int

// States, in the order in which a session has them.
const (
	stateOpen     state = iota
	stateClosing        // nothing joins any more; requests are in flight
	stateFinished       // nothing is in flight
)

func (s state) String() string { return [...]string{"open", "closing", "finished"}[s] }

// session is one session. Its fields do not change; what does is the registry's.
type session struct {
	ID       string // on the admin listener, and in the path of sessions that it made
	Trace    string
	by       journal.By
	recorder *recorder

	key      string // in the registry
	state    state
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

// ticket is the place of a request in its session.
type ticket struct {
	session *session
	q       int           // number of the request, in the order of arrival
	T       int64         // nanoseconds since the first arrival of the session; it never falls from request to request
	place   journal.Place // its agent
	marked  bool          // a mark says that a subagent asks, but not which
}

// sessionInfo is what the admin listener says of a session: nothing that a client sent.
type sessionInfo struct {
	Trace      string `json:"trace"`
	State      string `json:"state"`
	Requests   int    `json:"requests"`
	InFlight   int    `json:"inflight"`
	Blocks     int    `json:"blocks"`
	Incomplete bool   `json:"incomplete"`
}

// Start returns the instant of the first arrival. It is for those who hold a ticket of the session.
func (s *session) Start() int64 { return s.start }

// agent returns the number of an agent by its id; 0 is the main agent.
func (s *session) agent(id string) int {
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
func (s *session) place(agent, parent string, via journal.Tier) journal.Place {
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
func (r *registry) resolve(id identity) (key, agent, parent string, ok bool) {
	if !id.chain {
		return id.session, id.agent, id.parent, true
	}
	root, above := id.agent, id.parent
	for links := 0; above != "" && above != root; links++ {
		if links == maxChain || above == id.agent {
			return "", "", "", false
		}
		root, above = above, r.parents[id.session+above]
	}
	key, agent, parent = id.session+root, id.agent, id.parent
	if agent == root {
		agent = ""
	}
	if parent == root {
		parent = ""
	}
	return key, agent, parent, true
}

// link remembers the parent of an agent. What an agent said first counts.
func (r *registry) link(s *session, id identity) {
	own := id.session + id.agent
	if _, known := r.parents[own]; !known {
		r.parents[own] = id.parent
		s.ids = append(s.ids, own)
	}
}

// Why a request, or a call on the admin listener, is refused. The texts are those of the admin listener.
var (
	errNotFound = errors.New("session not found")
	errClosing  = errors.New("session closing")
	errBusy     = errors.New("session busy")
	errTooMany  = errors.New("too many sessions")
)

// Bounds of what is remembered.
const (
	maxAgents     = 1 << 14   // of a session: one more finishes it
	maxTombstones = 4096      // sessions that are finished and still known
	tombstoneLife = time.Hour // how long they are
)

// registry knows the sessions. Its lock is held for as long as it takes to look into a map.
type registry struct {
	options *Options
	key     [sha256.Size]byte // of the digests that tell clients apart; it is never stored
	record  func(*session)    // gives a session its recorder
	over    func(*session)    // tells it, once, that nothing of the session is in flight any more, or that what is has to be given up

	mu       sync.Mutex
	current  map[string]*session // by key: the one that requests join, or the last one
	byID     map[string]*session // that are not forgotten
	parents  map[string]string   // links of chains, with their sources
	used     map[string]bool     // traces whose names no session gets
	resting  list.List           // *Session, open and without requests in flight: that which is idle longest first
	closing  map[*session]bool
	open     int        // sessions
	finished []*session // tombstones, oldest first
}

// newRegistry returns a registry without sessions. Those that it makes get none of the ids that are used.
func newRegistry(o *Options, key [sha256.Size]byte, used []string, record, over func(*session)) *registry {
	r := &registry{options: o, key: key, record: record, over: over, current: map[string]*session{}, byID: map[string]*session{}, parents: map[string]string{}, used: map[string]bool{}, closing: map[*session]bool{}}
	for _, trace := range used {
		r.used[trace] = true
	}
	return r
}

// Join puts a request into its session, which is made if there is none that is open. a is what
// tells the client apart where the identity leads nowhere.
//
// Where sessions are linear it also takes the slot of the session. The error is errClosing or errBusy then, and nil otherwise.
func (r *registry) Join(id identity, a *carry.Arrival) (t ticket, err error) {
	at := a.At
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := id
	key, agent, parent, ok := r.resolve(id)
	if !ok {
		id = r.client(a)
		key, agent, parent = id.session, "", ""
	}
	s := r.current[key]
	if r.options.Linear && s != nil && (s.state == stateClosing || s.held) {
		if s.state == stateClosing {
			return t, errClosing
		}
		return t, errBusy
	}
	if s == nil || s.state != stateOpen || len(s.agents) >= maxAgents && s.agents[agent] == 0 && agent != "" {
		if s != nil {
			r.close(s, journal.WhyLimit, at)
		}
		if s, err = r.begin(key, id.by, "", at); err != nil {
			return t, err
		}
	}
	if asked.chain {
		r.link(s, asked)
	}
	if !s.begun {
		s.begun, s.start = true, at
	}
	s.arrived = max(s.arrived, at) // goroutines may come here in another order than that in which they read the clock
	t = ticket{session: s, q: s.requests, T: max(0, s.arrived-s.start), place: s.place(agent, parent, id.via), marked: id.marked && agent == ""}
	s.requests++
	s.inFlight++
	s.held = r.options.Linear
	s.last = max(s.last, at)
	r.wake(s)
	return t, nil
}

// rest puts a session behind those that are idle longer, and wake takes it from among them.
func (r *registry) rest(s *session) { s.resting = r.resting.PushBack(s) }

// wake takes a session from among those that are idle.
func (r *registry) wake(s *session) {
	if s.resting != nil {
		r.resting.Remove(s.resting)
		s.resting = nil
	}
}

// idlest returns the open session that has been idle longest, nil where all have requests in flight.
func (r *registry) idlest() *session {
	if first := r.resting.Front(); first != nil {
		return first.Value.(*session)
	}
	return nil
}

// begin makes a session. Where there are too many it finishes the one that is idle longest.
func (r *registry) begin(key string, by journal.By, id string, at int64) (*session, error) {
	if r.full() {
		if idle := r.idlest(); idle != nil {
			r.close(idle, journal.WhyLimit, at)
		}
	}
	trace, err := r.draw()
	if err != nil {
		return nil, err
	}
	s := &session{ID: cmp.Or(id, trace), Trace: trace, by: by, key: key, last: at}
	r.record(s)
	r.current[key], r.byID[s.ID], r.byID[s.Trace] = s, s, s
	r.open++
	r.rest(s)
	return s, nil
}

// full reports whether there are as many sessions that are not finished as there may be.
func (r *registry) full() bool {
	return r.options.Limits.Sessions > 0 && r.open+len(r.closing) >= r.options.Limits.Sessions
}

// draw draws the name of a trace that none had before.
func (r *registry) draw() (trace string, err error) {
	for trace == "" || r.used[trace] {
		var id [4]byte
		if _, err := io.ReadFull(r.options.Random, id[:]); err != nil {
			return "", fmt.Errorf("cannot draw an id for a trace: %w", err)
		}
		trace = "cap-" + hex.EncodeToString(id[:])
	}
	r.used[trace] = true
	return trace, nil
}

// leave counts a request that is over. The last one of a closing session finishes the session.
func (r *registry) leave(s *session, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.inFlight--
	s.held = false
	s.last = max(s.last, at)
	switch {
	case s.inFlight > 0:
	case s.state == stateClosing:
		r.finish(s, at)
	case s.state == stateOpen:
		r.rest(s)
	}
}

// Close makes a session take no more requests. It is finished when those in flight are over. Closing it again does nothing.
func (r *registry) Close(s *session, why journal.Why, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close(s, why, at)
}

// close is Close for callers that hold the lock.
func (r *registry) close(s *session, why journal.Why, at int64) {
	if s.state != stateOpen {
		return
	}
	s.state, s.why, s.closed = stateClosing, why, at
	r.wake(s)
	r.open--
	r.closing[s] = true
	if s.inFlight == 0 {
		r.finish(s, at)
	}
}

// finish ends a session, and keeps it as a tombstone. Its recorder is told.
func (r *registry) finish(s *session, at int64) {
	s.state, s.closed = stateFinished, at
	delete(r.closing, s)
	for _, id := range s.ids {
		delete(r.parents, id)
	}
	s.ids, s.agents = nil, nil
	r.finished = append(r.finished, s)
	if len(r.finished) > maxTombstones {
		r.forget(1)
	}
	r.over(s)
}

// forget drops the n oldest of the sessions that are finished and still known.
func (r *registry) forget(n int) {
	for _, s := range r.finished[:n] {
		delete(r.byID, s.ID)
		delete(r.byID, s.Trace)
		if r.current[s.key] == s {
			delete(r.current, s.key)
		}
	}
	r.finished = slices.Delete(r.finished, 0, n)
}

// sweep finishes sessions that have been idle too long, gives up requests of sessions that have been closing too long, and
// forgets those that were finished an hour ago. It is called now and then.
func (r *registry) sweep(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := r.idlest(); s != nil && r.options.Idle > 0 && at-s.last >= int64(r.options.Idle); s = r.idlest() {
		r.close(s, journal.WhyIdle, at)
	}
	for s := range r.closing {
		if at-s.closed >= int64(r.options.Drain) {
			r.finish(s, at)
		}
	}
	old := 0
	for old < len(r.finished) && at-r.finished[old].closed >= int64(tombstoneLife) {
		old++
	}
	r.forget(old)
}

// shutdown closes all sessions. With force, requests in flight are given up.
func (r *registry) shutdown(force bool, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.byID {
		r.close(s, journal.WhyShutdown, at)
		if force && s.state == stateClosing {
			r.finish(s, at)
		}
	}
}

// create makes a session without requests, for the prefix of a path.
func (r *registry) create(at int64) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() && r.idlest() == nil {
		return nil, errTooMany
	}
	name := make([]byte, 16)
	if _, err := io.ReadFull(r.options.Random, name); err != nil {
		return nil, fmt.Errorf("cannot draw an id for a session: %w", err)
	}
	id := hex.EncodeToString(name)
	return r.begin("url "+id, journal.ByURL, id, at)
}

// delete closes a session by its id.
func (r *registry) delete(id string, at int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	if s == nil {
		return errNotFound
	}
	if s.state != stateOpen {
		return errClosing
	}
	r.close(s, journal.WhyDelete, at)
	return nil
}

// get returns what a listener may say of a session, by its id.
func (r *registry) get(id string) (sessionInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	if s == nil {
		return sessionInfo{}, errNotFound
	}
	return s.info(), nil
}

// list returns that of all sessions that are known, by their traces.
func (r *registry) list() []sessionInfo {
	r.mu.Lock()
	list := []sessionInfo{}
	for id, s := range r.byID {
		if id == s.Trace {
			list = append(list, s.info())
		}
	}
	r.mu.Unlock() // requests wait for it
	slices.SortFunc(list, func(a, b sessionInfo) int { return cmp.Compare(a.Trace, b.Trace) })
	return list
}

// info returns what the admin listener says of the session.
func (s *session) info() sessionInfo {
	return sessionInfo{s.Trace, s.state.String(), s.requests, s.inFlight, int(s.recorder.blocks.Load()), s.recorder.incomplete.Load()}
}

// counts returns how many sessions there are in each state.
func (r *registry) counts() [3]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return [3]int{stateOpen: r.open, stateClosing: len(r.closing), stateFinished: len(r.finished)}
}

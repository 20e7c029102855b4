package mmapcache

import (
	"fmt"
	"math"

	"github.com/agentx/agentx/timeline"
)

// Role is the chat role of a segment.
type Role uint8

// The roles.
const (
	System Role = iota
	User
	Assistant

	// Of recorded messages alone.
	Developer
	ToolRole  // answers to calls
	OtherRole // one that no API has
	Tools     // no message: the definitions of a session's tools
	Members   // no message: members of the body besides, each with its name
)

func (r Role) String() string {
	return nameOf("role", int(r), "system", "user", "assistant", "developer", "tool", "other", "tools", "members")
}

// nameOf returns the name of value k, with a fallback for the values of a damaged table.
func nameOf(what string, k int, names ...string) string {
	if k < len(names) {
		return names[k]
	}
	return fmt.Sprintf("%s %d", what, k)
}

// SessionKind says where a session comes from.
type SessionKind uint8

// The kinds of a session.
const (
	Main     SessionKind = iota // the trace's own list of requests
	Subagent                    // the requests of a marker
	Flat                        // a side chain found in the trace's own list
)

func (k SessionKind) String() string {
	return nameOf("kind", int(k), "weka_main", "weka_subagent", "weka_flat")
}

// InputKind says what the new input of a turn is.
type InputKind uint8

// The kinds of input.
const (
	InputUnknown InputKind = iota
	UserInput
	ToolResult
)

func (k InputKind) String() string { return nameOf("input", int(k), "", "user_input", "tool_result") }

// None is the value of an index that points to nothing.
const None = -1

// Plan is the structure of one trace: everything about it but tokens. All indices are within the trace. The tags of its rows name the
// columns of the tables, in their order.
type Plan struct {
	Trace    Trace
	Sessions []Session // the root first
	Turns    []Turn    // those of a session stand together, sessions in order
	Segments []Segment // a parent stands before its children
	Runs     []BlockRun
	Tools    []Tool // only where tool results are shaped
}

// Trace is one row of traces.arrow. Structure.Append fills in where its rows lie in the other tables. The probe of package convert prints
// rows: the order of their fields stands in keys.
type Trace struct {
	ID           string `column:"id"`
	Scope        string `column:"hash_id_scope,word"` // hash_id_scope as recorded: "local", "global" or "absent"
	BlockSize    uint32 `column:"block_size"`         // tokens
	Blocks       uint32 `column:"blocks"`             // distinct hash ids, per scope
	FirstSession uint32 `column:"first_session"`
	Sessions     uint32 `column:"sessions"`
	FirstTurn    uint32 `column:"first_turn"`
	Turns        uint32 `column:"turns"`
	FirstSegment uint32 `column:"first_segment"`
	Segments     uint32 `column:"segments"`
	FirstRun     uint32 `column:"first_run"` // rows of blocks.arrow
	Runs         uint32 `column:"runs"`
	FirstBlock   uint32 `column:"first_block"` // in the placement
	FirstTool    uint32 `column:"first_tool"`
	Tools        uint32 `column:"tools"`
}

// Session is one row of sessions.arrow: a conversation.
type Session struct {
	ID          string          `column:"session_id"`
	Agent       string          `column:"agent_id"` // agent_id of its marker, "" for the root
	Kind        SessionKind     `column:"kind"`
	Parent      int32           `column:"parent"`           // session within the trace; None for the root
	Outer       uint32          `column:"source_outer_idx"` // index in the trace's requests of its marker or first request; 0 for the root
	FirstTurn   uint32          `column:"first_turn"`       // within the trace
	Turns       uint32          `column:"turns"`
	SpawnTurn   int32           `column:"spawn_turn"`            // turn of the root session that starts it; None for the root
	JoinTurn    int32           `column:"join_turn"`             // turn of the root session that waits for it; None: no turn does
	SpawnFrom   timeline.Origin `column:"spawn_from"`            // from when SpawnOffset counts
	SpawnOffset float64         `column:"spawn_offset_ms"`       // milliseconds; 0 for the root
	Start       float64         `column:"marker_start,optional"` // of its marker on the root clock, seconds; NaN for the root
	End         float64         `column:"marker_end,optional"`   // the same
	Clock       string          `column:"marker_clock,word"`     // how its marker's times were read, "basis/reading"; "" for the root
}

// Turn is one row of turns.arrow: a request to send, with what was recorded of it.
type Turn struct {
	T         float64   `column:"t"`                   // start on the root clock, seconds
	APITime   float64   `column:"api_time,optional"`   // recorded duration, seconds; NaN where missing
	ThinkTime float64   `column:"think_time,optional"` // recorded think time, seconds; NaN where missing
	In        uint32    `column:"in"`                  // prompt, tokens
	Out       int32     `column:"out"`                 // recorded completion, tokens; NoLength
	HashIDs   uint32    `column:"hash_ids"`            // length of hash_ids as recorded
	CacheHits uint32    `column:"cache_hits"`          // of these, how many an unlimited prefix cache would have held
	Last      int32     `column:"last_segment"`        // last segment of the prompt; None for an empty prompt
	Outer     uint32    `column:"source_outer_idx"`    // index in the trace's requests; for a turn of a subagent, of its marker
	Inner     int32     `column:"source_inner_idx"`    // index in the marker's requests; None outside a subagent
	Model     string    `column:"model,word"`          // as recorded
	Input     InputKind `column:"input_kind"`
}

// Segment is one row of segments.arrow: a stretch of one message. Segments form a tree; a turn's prompt is the path
// from the root to its last segment.
type Segment struct {
	Parent int32        `column:"parent"` // None for the first of a prompt
	Role   Role         `column:"role"`
	Flags  SegmentFlags `column:"part"`
	First  uint32       `column:"first"` // first block, or the turn whose filler it is, both within the trace; a recorded message; the token of the corpus where a prefix begins
	Count  uint32       `column:"count"` // blocks; tokens of a filler, head or prefix; of a recorded message about how many it has
}

// SegmentFlags say how a segment belongs to its message.
type SegmentFlags uint8

// The flags: Continues, or not, with at most one of the others.
const (
	Continues SegmentFlags = 1 << iota // belongs to the message of its parent; without it, it begins a message
	Filler                             // all tokens of its turn that no hash id covers
	Head                               // the first tokens of one block: the last id of a list covers less than a block
	Recorded                           // a recorded message
	Prefix                             // tokens of the corpus, for a prefix that the recording lacks
)

// BlockRun is one row of blocks.arrow: blocks First, First+1, ... of a trace stand for hash ids ID, ID+1, ... in Scope.
type BlockRun struct {
	Scope string `column:"scope,word"` // salt of the hash ids
	ID    int64  `column:"hash_id"`
	First uint32 `column:"first"` // within the trace
	Count uint32 `column:"count"`
}

// Tool is one row of tools.arrow: a message that answers a tool call of the assistant's message before it.
type Tool struct {
	Segment int32  `column:"segment"` // that begins the message, within the trace
	Turn    uint32 `column:"turn"`    // of the session, that brings the result: it names the call
}

// ScopeText is the scope of traces whose prompts are recorded messages.
const ScopeText = "text"

// FillerTokens returns how many tokens of a turn's prompt no hash id covers: doc/spec/reconstruction.md 3.1.
func (t Turn) FillerTokens(blockSize uint32) uint32 {
	full := t.In / blockSize
	return t.In - min(full, t.HashIDs)*blockSize
}

// NoLength is Turn.Out of a request whose recording has no completion and asks for no length.
const NoLength = math.MinInt32

// MaxTokens returns the recorded completion length, at least 1: servers refuse 0. It returns 0 where no length is to be asked for.
func (t Turn) MaxTokens() int {
	if t.Out == NoLength {
		return 0
	}
	return max(1, int(t.Out))
}

// Package rows keeps of each row of logs of Claude Code what says where it belongs: the uuids that link it to others, its instant, its
// agent, and the numbers of its texts, about a hundred bytes a row. It is doc/spec/text.md 4.1 and 4.4.
//
//	log := rows.New(content.Reader{Data: dataset})
//	err := log.Row(data, place) // each row of each file
//	parts := log.Parts(7)       // of a user's row
//
// Package links puts the rows in order, and package claude makes prompts of them.
package rows

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// The members of a row.
const (
	kType = iota
	kSubtype
	kUUID
	kParent
	kSession
	kAgent
	kSidechain
	kTimestamp
	kRequest
	kMeta
	kSummary
	kFailed
	kLeaf
	kSnapshot
	kParentCall
	kCall // of an agent: agent-*.meta.json
	kMessage
	kID
	kModel
	kContent
	kStop
	kUsage
	kInput
	kCreated
	kRead
	kOutput
	kDataType
	kDataAgent
	kDataMessage
	kResultAgent
	kResultStatus
	kResultAsync
	kResultTask
	kHead
	kAnchor
	kTail
	kKeptAnchor
	kKept
	kCleared
	keys
)

var schema = content.NewSchema([]string{kType: "type", kSubtype: "subtype", kUUID: "uuid", kParent: "parentUuid", kSession: "sessionId",
	kAgent: "agentId", kSidechain: "isSidechain", kTimestamp: "timestamp", kRequest: "requestId", kMeta: "isMeta", kSummary: "isCompactSummary",
	kFailed: "isApiErrorMessage", kLeaf: "leafUuid", kSnapshot: "snapshot", kParentCall: "parentToolUseID", kCall: "toolUseId",
	kMessage: "message", kID: "message.id", kModel: "message.model", kContent: "message.content", kStop: "message.stop_reason",
	kUsage: "message.usage", kInput: "message.usage.input_tokens", kCreated: "message.usage.cache_creation_input_tokens",
	kRead: "message.usage.cache_read_input_tokens", kOutput: "message.usage.output_tokens",
	kDataType: "data.type", kDataAgent: "data.agentId", kDataMessage: "data.message",
	kResultAgent: "toolUseResult.agentId", kResultStatus: "toolUseResult.status", kResultAsync: "toolUseResult.isAsync", kResultTask: "toolUseResult.backgroundTaskId",
	kHead: "compactMetadata.preservedSegment.headUuid", kAnchor: "compactMetadata.preservedSegment.anchorUuid", kTail: "compactMetadata.preservedSegment.tailUuid",
	kKeptAnchor: "compactMetadata.preservedMessages.anchorUuid", kKept: "compactMetadata.preservedMessages.uuids",
	kCleared: "microcompactMetadata.compactedToolIds"})

// line is what a row says.
type line [keys]content.Raw

// linking has the types of rows that are links, ignored those of the other rows that have nothing of a prompt.
var (
	linking = map[string]bool{"user": true, "assistant": true, "system": true, "progress": true, "attachment": true}
	ignored = map[string]bool{"summary": true, "ai-title": true, "custom-title": true, "last-prompt": true, "file-history-snapshot": true,
		"queue-operation": true, "continued-in": true, "mode": true, "permission-mode": true, "pr-link": true,
		"api-request": true, "api-request-blob": true, "api-request-shape": true, "atis-latch": true, "cost-state": true, "tools-used": true}
)

// Is reports whether an object is a row of a log.
func Is(row content.Raw) bool {
	var x line
	_ = schema.Read(row, x[:]) // it may be cut off
	name := string(x[kType].Bytes())
	return x[kSession].IsString() && (x[kUUID].IsString() || x[kLeaf].IsString() || linking[name] || ignored[name]) ||
		name == "summary" && x[kLeaf].IsString() || name == "file-history-snapshot" && x[kSnapshot].IsObject()
}

// IsAgent reports whether a file says of the agent whose log stands beside it which call started it.
func IsAgent(path string) bool {
	return strings.HasPrefix(filepath.Base(path), "agent-") && strings.HasSuffix(path, ".meta.json")
}

// Log is the rows of the files of an input.
type Log struct {
	content.Reader
	Files     []File
	Rows      []Row
	IDs       []IDs // of each row, until package links has them
	Chains    []Chain
	Splices   []Splice
	Clearings []Clearing

	bodies   []byte        // of rows of users and the assistant
	names    content.Names // of sessions, agents and stops
	warnings content.Names
	numbered map[[2]int32]int32   // chains by session and agent
	called   map[string]text.Text // call of an agent, by the path of its log up to the first dot
}

// File is a file of the input.
type File struct {
	Path        string
	Agent       int32 // that its name names; 0: none
	From, To    int32 // its rows
	First, Last int64 // instants of its rows

	number  int
	at      int64 // of the row before
	session int32 // of the row before
}

// Row is a row with a uuid.
type Row struct {
	At      int64
	Chain   int32
	File    int32
	body    uint32 // in Log.bodies
	warning uint16 // in Log.warnings; 0: nothing
	Kind    Kind
	Flags   Flags
}

// IDs stand for the uuid of a row and that of its parent; 0: none.
type IDs struct{ Row, Parent xxh3.Uint128 }

// Kind is what a row is in a prompt.
type Kind uint8

// The kinds of rows.
const (
	Link Kind = iota // nothing but a link
	User
	Assistant
	Compact // compact_boundary
	Clear   // microcompact_boundary
	Copied  // it has been there: package links
)

// Flags are what else a row is.
type Flags uint8

// The flags of rows.
const (
	IsMeta Flags = 1 << iota
	IsSummary
	IsInline   // of a sidechain that names no agent
	IsSettled  // IsInline, and its chain is known: package links
	IsProgress // stands in the row before, a progress row
	HasResult
	NoTime
)

// Chain is the rows of an agent of a session; of agent 0 those of the session itself.
type Chain struct {
	Session, Agent int32     // names
	Own            bool      // it has rows that do not stand in progress rows
	Async          bool      // nothing waits for the agent
	Call           text.Text // that started the agent
	source         uint8     // of Call: the higher the better
}

// Splice is what a compaction keeps: rows that stand behind the anchor from then on.
type Splice struct {
	Boundary int32
	Anchor   xxh3.Uint128
	Kept     []xxh3.Uint128 // each; of a segment the first and the last
	Segment  bool
}

// Clearing is a row that names results whose text was taken out.
type Clearing struct {
	Row   int32
	Calls []text.Text
}

// New returns a log that keeps texts by a reader.
func New(r content.Reader) *Log {
	return &Log{Reader: r, numbered: map[[2]int32]int32{}, called: map[string]text.Text{}}
}

// Name returns a name of a session, an agent or a stop by its number.
func (r *Log) Name(n int32) string { return r.names.Name(n) }

// Row reads a row.
func (r *Log) Row(data []byte, at text.Place) error {
	var x line
	if err := schema.Read(data, x[:]); err != nil {
		return err
	}
	switch {
	case bytes.TrimLeft(data, " \t\r\n")[0] != '{':
		r.Data.Warn("not_object")
	case len(r.bodies) > math.MaxUint32 || len(r.Rows) > math.MaxInt32-2:
		return errors.New("more than 4 GiB of links between rows: split the input")
	case IsAgent(at.Path):
		r.called[stem(at.Path)] = r.Text(x[kCall])
	default:
		r.add(&x, r.enter(at))
	}
	return r.Err()
}

// End notes what the file beside the log of an agent says, and gives up what only Row needs.
func (r *Log) End() {
	for k := range r.Files {
		if f := &r.Files[k]; f.Agent != 0 && f.From < f.To {
			r.started(r.Rows[f.From].Chain, r.called[stem(f.Path)], 1)
		}
	}
	r.called, r.numbered = nil, nil
	r.names.Done()
	r.warnings.Done()
}

// stem returns a path up to the first dot of the file's name.
func stem(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return filepath.Join(filepath.Dir(path), name)
}

// enter returns the file of a row.
func (r *Log) enter(at text.Place) *File {
	if n := len(r.Files); n == 0 || r.Files[n-1].number != at.File {
		f := File{Path: at.Path, number: at.File, From: int32(len(r.Rows)), First: text.NoTime, Last: text.NoTime, at: text.NoTime}
		name := filepath.Base(stem(at.Path))
		if agent, ok := strings.CutPrefix(name, "agent-"); ok {
			f.Agent = r.names.Number([]byte(agent))
		}
		f.session = r.names.Number([]byte(name))
		r.Files = append(r.Files, f)
	}
	return &r.Files[len(r.Files)-1]
}

// chainOf returns the chain of an agent of a session.
func (r *Log) chainOf(session, agent int32) int32 {
	n, ok := r.numbered[[2]int32{session, agent}]
	if !ok {
		n = int32(len(r.Chains))
		r.Chains = append(r.Chains, Chain{Session: session, Agent: agent})
		r.numbered[[2]int32{session, agent}] = n
	}
	return n
}

// add keeps a row that is a link.
func (r *Log) add(x *line, f *File) {
	w := Row{File: int32(len(r.Files) - 1)}
	var warning string
	w.Kind, warning = x.classify()
	if !x[kUUID].IsString() {
		if linking[string(x[kType].Bytes())] {
			warning = "no_uuid"
		}
		r.Data.Warn(warning)
		return
	}
	if x[kSession].IsString() {
		f.session = r.names.Number(x[kSession].Bytes())
	}
	agent := f.Agent
	if x[kSidechain].IsTrue() && x[kAgent].IsString() {
		agent = r.names.Number(x[kAgent].Bytes())
	} else if x[kSidechain].IsTrue() && agent == 0 {
		agent, w.Flags = r.names.Number(x[kUUID].Bytes()), IsInline
	}
	w.Chain = r.chainOf(f.session, agent)
	r.Chains[w.Chain].Own = true
	r.keep(w, x, warning)
	if !x.ofAgent() {
		return
	}
	var inner line
	if schema.Read(x[kDataMessage], inner[:]) != nil || !x[kDataAgent].IsString() {
		return
	}
	if inner[kTimestamp] == nil {
		inner[kTimestamp] = x[kTimestamp]
	}
	w = Row{File: w.File, Flags: IsProgress, Chain: r.chainOf(f.session, r.names.Number(x[kDataAgent].Bytes()))}
	w.Kind, warning = inner.classify()
	r.started(w.Chain, r.Text(x[kParentCall]), 2)
	r.keep(w, &inner, warning)
}

package journal

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// By says how a session was recognised: doc/spec/capture.md 3.1.
type By string

// Ways to recognise a session.
const (
	ByURL    By = "url"
	ByHeader By = "header"
	ByBody   By = "body"
	ByClient By = "client"
	ByLog    By = "log" // of an import: doc/spec/text.md 12
)

// Outcome is how an exchange ended: doc/spec/capture.md 6.1.
type Outcome string

// Ends of an exchange.
const (
	Complete   Outcome = "complete"
	Partial    Outcome = "partial"
	ClientGone Outcome = "client_gone"
	NoOutput   Outcome = "no_output"
	BadStatus  Outcome = "status"
	Transport  Outcome = "transport"
	Aborted    Outcome = "aborted"
)

// Recorded reports whether a request that ended so can be in a trace: its prompt was read to some purpose.
func (x Outcome) Recorded() bool { return x == Complete || x == Partial || x == ClientGone }

// Reason is why a request is not in a trace: doc/spec/capture.md 6.2.
type Reason string

// Reasons that leave no hole.
const (
	ReasonStatus    Reason = "status"
	ReasonTransport Reason = "transport"
	ReasonNoOutput  Reason = "no_output"
	ReasonEndpoint  Reason = "endpoint"
	ReasonOptOut    Reason = "opt_out"
	ReasonRetry     Reason = "retry"
	ReasonOrphan    Reason = "orphan"
)

// Reasons that leave a hole: a prompt was served that the trace lacks.
const (
	HoleParse      Reason = "parse_request"
	HoleUnhashable Reason = "unhashable"
	HoleEncoding   Reason = "encoding"
	HoleOversize   Reason = "oversize"
	HoleBudget     Reason = "budget"
	HoleQueue      Reason = "queue"
	HoleAborted    Reason = "aborted"
	HoleInternal   Reason = "internal"
	HoleInvariant  Reason = "invariant"
	HoleJournal    Reason = "journal"
)

// Why says why a session was finished.
type Why string

// Ends of a session.
const (
	WhyFinal    Why = "final"
	WhyDelete   Why = "delete"
	WhyIdle     Why = "idle"
	WhyLimit    Why = "limit"
	WhyShutdown Why = "shutdown"
)

// AgentType is the subagent_type of a trace.
type AgentType string

// Types of subagents. Any other one is Custom.
const (
	Explore        AgentType = "Explore"
	PlanAgent      AgentType = "Plan"
	GeneralPurpose AgentType = "general-purpose"
	Custom         AgentType = "custom"
)

// AgentTypeOf returns the type of a subagent by the argument of its call.
func AgentTypeOf(name string) AgentType {
	if t := AgentType(name); slices.Contains(agentTypes, t) {
		return t
	}
	return Custom
}

// Kinds is a set of kinds of content.
type Kinds uint8

// Kinds of content.
const (
	Text Kinds = 1 << iota
	ToolResult
	ToolUse
	Thinking

	allKinds = 1<<iota - 1
)

// kindNames has the word of each kind, as a trace writes it.
var kindNames = []string{"text", "tool_result", "tool_use", "thinking"}

// Names returns the words of a set of kinds, sorted.
func (k Kinds) Names() []string {
	names := namesOf(k, kindNames)
	slices.Sort(names)
	return names
}

// Stop is the stop of a trace.
type Stop uint8

// Stops of a trace.
const (
	StopNone Stop = iota
	StopToolUse
	StopEndTurn

	stops
)

// stopNames has the word of each Stop, as a trace writes it.
var stopNames = [stops]string{"", "tool_use", "end_turn"}

func (s Stop) String() string { return stopNames[s] }

// StopOf returns the stop of a trace for the word of an API.
func StopOf(word string) Stop {
	switch word {
	case "tool_use", "tool_calls", "function_call":
		return StopToolUse
	case "end_turn", "stop_sequence", "stop", "completed":
		return StopEndTurn
	}
	return StopNone
}

// Tier is the evidence for a subagent, from 1, the best: doc/spec/capture.md 8.1.
type Tier uint8

// Tiers of evidence.
const (
	TierHeader  Tier = 1
	TierMark    Tier = 2
	TierLinkage Tier = 3
)

// Mark is a set of marks of a recorded request: doc/spec/capture.md 6.2.
type Mark uint8

// Marks of a request.
const (
	MarkPartial Mark = 1 << iota
	MarkClientGone
	MarkOutCounted
	MarkClock
	MarkReplyJSON
	MarkReplyShape
	MarkReplyUsage
	MarkReplyStream
)

var markNames = []string{"partial", "client_gone", "out_counted", "clock", "reply_json", "reply_shape", "reply_usage", "reply_stream"}

// Names returns the words of a set of marks.
func (m Mark) Names() []string { return namesOf(m, markNames) }

// The closed lists.
var (
	ways       = []By{ByURL, ByHeader, ByBody, ByClient, ByLog}
	outcomes   = []Outcome{Complete, Partial, ClientGone, NoOutput, BadStatus, Transport, Aborted}
	holes      = []Reason{HoleParse, HoleUnhashable, HoleEncoding, HoleOversize, HoleBudget, HoleQueue, HoleAborted, HoleInternal, HoleInvariant, HoleJournal}
	whys       = []Why{WhyFinal, WhyDelete, WhyIdle, WhyLimit, WhyShutdown}
	agentTypes = []AgentType{Explore, PlanAgent, GeneralPurpose, Custom}
	// stopWords are the words with which APIs say why an answer ended. Any other one is "other".
	stopWords = []string{"tool_use", "tool_calls", "function_call", "end_turn", "stop_sequence", "stop", "completed", "max_tokens",
		"length", "pause_turn", "refusal", "content_filter", "model_context_window_exceeded", "max_output_tokens", "incomplete", "failed", "cancelled", "other"}
)

// LeavesHole reports whether a reason leaves a hole.
func (r Reason) LeavesHole() bool { return slices.Contains(holes, r) }

// StopWord returns the word as a journal may hold it: itself where it is of the closed list, else "other".
func StopWord(word string) string {
	if word == "" || slices.Contains(stopWords, word) {
		return word
	}
	return "other"
}

// namePattern is what the name of a model or tokenizer, or the id of a trace, looks like.
const namePattern = `[A-Za-z0-9._:/@-]{1,128}`

var (
	plainName = lazyregexp.New(`^` + namePattern + `$`)
	traceName = lazyregexp.New(`^(cap|imp)-[0-9a-f]{8}$`)
)

// ModelName returns the name of the model of an index as a journal may hold it: model-N where it is none that it takes.
func ModelName(name string, index int) string {
	if plainName().MatchString(name) {
		return name
	}
	return fmt.Sprintf("model-%d", index+1)
}

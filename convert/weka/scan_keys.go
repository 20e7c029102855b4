package weka

// key is a name that a request or a subagent may have.
type key uint8

const (
	keyUnknown key = iota
	keyT
	keyType
	keyModel
	keyIn
	keyInLong
	keyOut
	keyOutLong
	keyIDs
	keyInputTypes
	keyOutputTypes
	keyStop
	keyAPITime
	keyThinkTime
	keyTTFT
	keyAgentID
	keySubagentType
	keyDuration
	keyTotalTokens
	keyToolUseCount
	keyStatus
	keyRequests
	keyModels
	keyToolTokens
	keySystemTokens
)

// keyNames has the name of each key, as JSON and columns have it.
var keyNames = [...]string{"", "t", "type", "model", "in", "input_length", "out", "output_length", "hash_ids",
	"input_types", "output_types", "stop", "api_time", "think_time", "ttft", "agent_id", "subagent_type", "duration_ms",
	"total_tokens", "tool_use_count", "status", "requests", "models", "tool_tokens", "system_tokens"}

var keysByName = func() map[string]key {
	m := make(map[string]key, len(keyNames))
	for k, name := range keyNames[1:] {
		m[name] = key(k + 1)
	}
	return m
}()

// nameOf returns a name as a string, without an allocation where it is that of a key.
func nameOf(name []byte) string {
	if k := keysByName[string(name)]; k != keyUnknown {
		return keyNames[k]
	}
	return string(name)
}

// keys is a set of keys.
type keys uint32

func setOf(list ...key) (s keys) {
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

func (s keys) has(k key) bool { return s&(1<<k) != 0 }

// The closed schemas of requests and subagents: doc/spec/reconstruction.md 1.2 and 1.3.
var (
	requestKeys = setOf(keyT, keyType, keyModel, keyIn, keyInLong, keyOut, keyOutLong, keyIDs, keyInputTypes,
		keyOutputTypes, keyStop, keyAPITime, keyThinkTime)
	streamedKeys = requestKeys | setOf(keyTTFT)
	subagentKeys = setOf(keyT, keyType, keyAgentID, keySubagentType, keyDuration, keyTotalTokens, keyToolUseCount,
		keyStatus, keyRequests, keyModels, keyToolTokens, keySystemTokens)
	requestRequires        = setOf(keyT, keyModel) // and in, out under either name
	subagentRequires       = setOf(keyT, keyAgentID, keyRequests)
	subagentRequiresStrict = subagentRequires | setOf(keySubagentType, keyStatus, keyModels)
	neverLeftOut           = requestRequires | subagentRequires | setOf(keyType, keyIn, keyInLong, keyOut, keyOutLong)
)

package tokensource

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/tokenizer"
)

// config is what tokenizer_config.json says about a file of ranks.
type config struct {
	Class   string                `json:"tokenizer_class"`
	AutoMap map[string]any        `json:"auto_map"`
	Added   map[string]addedToken `json:"added_tokens_decoder"`
}

type addedToken struct {
	Content string `json:"content"`
}

// reservedTokens is how many special tokens follow the ranks of Kimi. Those that tokenizer_config.json does not name have a name made
// of their id.
const reservedTokens = 256

// rankFile finds the pattern of a file of ranks: the user names it, tokenizer_config.json names the program that has it, or the file is
// one that is known.
func (c content) rankFile() (r tokenizer.Ranks, err error) {
	r = tokenizer.Ranks{File: c.ranks, Pattern: c.pattern}
	if r.Pattern != "" {
		return r, nil
	}
	if c.config != nil {
		if err := c.readConfig(&r); err != nil {
			return r, fmt.Errorf("%s: %w", configFile, err)
		}
	}
	if r.Pattern == "" {
		r.Pattern = r.KnownPattern()
	}
	if r.Pattern == "" {
		return r, fmt.Errorf("a file of ranks does not say how text is cut into pieces, and this one is not known: name the pattern, PATTERN:FILE with one of %s", strings.Join(tokenizer.Patterns(), ", "))
	}
	return r, nil
}

// readConfig reads the pattern and the special tokens. It knows Kimi's.
func (c content) readConfig(r *tokenizer.Ranks) error {
	var f config
	if err := json.Unmarshal(c.config, &f); err != nil {
		return err
	}
	auto, _ := json.Marshal(f.AutoMap["AutoTokenizer"]) // it was just parsed
	if f.Class != "TikTokenTokenizer" || !strings.Contains(string(auto), "tokenization_kimi.") {
		return nil
	}
	r.Pattern = "kimi"
	r.Added = map[uint32]string{}
	first := uint32(r.Size())
	for id := first; id < first+reservedTokens; id++ {
		r.Added[id] = fmt.Sprintf("<|reserved_token_%d|>", id)
	}
	for key, token := range f.Added {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil || id < uint64(first) || id >= uint64(first)+reservedTokens || token.Content == "" {
			return fmt.Errorf("added_tokens_decoder: %q with content %q: want ids of %d to %d, and content", key, token.Content, first, first+reservedTokens-1)
		}
		r.Added[uint32(id)] = token.Content
	}
	return nil
}

package wire

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// setOverflowPatterns sets the texts of a context overflow; nil are the defaults.
func (c *Client) setOverflowPatterns(texts []string) {
	if texts == nil {
		texts, c.dynamoOverflow = DefaultOverflowPatterns, true
	}
	for _, text := range texts {
		if text != "" {
			c.overflowTexts = append(c.overflowTexts, strings.ToLower(text))
		}
	}
}

// isOverflow reports whether a text of the server matches an overflow pattern. When a part of the text is JSON, its error
// message counts too: the message may be escaped in the text.
func (c *Client) isOverflow(text string) bool {
	if c.matchesOverflow(text) {
		return true
	}
	i := strings.IndexByte(text, '{')
	return i >= 0 && c.matchesOverflow(errorMessage(text[i:]))
}

func (c *Client) matchesOverflow(text string) bool {
	low := strings.ToLower(text)
	return slices.ContainsFunc(c.overflowTexts, func(t string) bool { return strings.Contains(low, t) }) ||
		slices.ContainsFunc(c.overflowRegexps, func(r *regexp.Regexp) bool { return r.MatchString(text) })
}

// isDynamoOverflow reports whether a stream failed before any content with the message "Internal server error". Dynamo
// answers so, under status 200, when a prompt does not fit; its other failures have other messages. In the Messages API the error
// has its name.
func isDynamoOverflow(api API, category Category, res *Result, text string) bool {
	said := StreamPayload
	if api == MessagesAPI {
		said = StreamEvent
	}
	return category == said && res.Chunks == 0 && strings.EqualFold(strings.TrimSpace(errorMessage(text)), "Internal server error")
}

// errorMessage returns the text of the error member of a JSON object: a string, or an object with message and code.
func errorMessage(text string) string {
	var doc struct{ Error json.RawMessage }
	if json.NewDecoder(strings.NewReader(text)).Decode(&doc) != nil {
		return ""
	}
	var s string
	if json.Unmarshal(doc.Error, &s) == nil {
		return s
	}
	var e struct{ Message, Code any }
	if json.Unmarshal(doc.Error, &e) != nil {
		return ""
	}
	message, _ := e.Message.(string)
	code, _ := e.Code.(string)
	return message + " " + code
}

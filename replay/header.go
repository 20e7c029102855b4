package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// Names of header fields.
const (
	requestHeader      = "X-Request-ID"
	affinityHeader     = "X-Session-Affinity"
	dynamoHeader       = "X-Dynamo-Session-ID"
	dynamoParentHeader = "X-Dynamo-Parent-Session-ID"
)

// SessionHeader are the header fields by which requests tell their session, besides X-Session-Affinity. The zero value has
// X-Correlation-ID alone.
type SessionHeader struct {
	// Correlation is the name of the field with the correlation id of the session. A field of
	// Options.Header with this name replaces it.
	Correlation string

	// More are the names of further fields with that id. They replace every other field with the same name, in any letter
	// case. With X-Dynamo-Session-ID the requests of a child have X-Dynamo-Parent-Session-ID, too.
	More []string
}

// Validate returns an error that names the first field that cannot be used.
func (h SessionHeader) Validate() error {
	names := h.More
	if h.Correlation != "" {
		if strings.EqualFold(h.Correlation, requestHeader) {
			return fmt.Errorf("correlation header %s: agentx writes the id of the request there: choose another name", h.Correlation)
		}
		names = append([]string{h.Correlation}, names...)
	}
	for k, name := range names {
		field := wire.HeaderField{Name: name}
		if err := field.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(names[:k], func(other string) bool { return strings.EqualFold(other, name) }) {
			return fmt.Errorf("session header %s: named twice", name)
		}
	}
	if slices.ContainsFunc(h.More, func(name string) bool { return strings.EqualFold(name, dynamoParentHeader) }) {
		return errors.New("session header " + dynamoParentHeader + ": agentx writes the id of the parent there: use " + dynamoHeader + ", which sets both")
	}
	return nil
}

// idsOf returns the fields with the ids of a request. The first may be replaced by those of the user, the others may not.
func (s *requestSender) idsOf(r *measure.Record) (ids, session []wire.HeaderField) {
	id := r.CorrelationID
	fields := make([]wire.HeaderField, 0, 5)
	fields = append(fields, wire.HeaderField{Name: requestHeader, Value: r.RequestID}, wire.HeaderField{Name: s.SessionHeader.Correlation, Value: id})
	if s.Switches.AffinityHeader {
		fields = append(fields, wire.HeaderField{Name: affinityHeader, Value: id})
	}
	for _, name := range s.SessionHeader.More {
		if s.Switches.AffinityHeader && strings.EqualFold(name, affinityHeader) {
			continue
		}
		fields = append(fields, wire.HeaderField{Name: name, Value: id})
		if r.ParentID != "" && strings.EqualFold(name, dynamoHeader) {
			fields = append(fields, wire.HeaderField{Name: dynamoParentHeader, Value: r.ParentID})
		}
	}
	return fields[:2:2], fields[2:]
}

// messagesVersion is the version of the Messages API that requests ask for.
const messagesVersion = "2023-06-01"

// useMessagesHeader gives requests the version and the key as the Messages API wants them. Fields of the user with the same names
// replace both.
func (o *Options) useMessagesHeader() {
	header := []wire.HeaderField{{Name: "anthropic-version", Value: messagesVersion}}
	if o.APIKey != "" {
		header = append(header, wire.HeaderField{Name: "x-api-key", Value: o.APIKey})
		o.APIKey = ""
	}
	o.Header = append(header, o.Header...)
}

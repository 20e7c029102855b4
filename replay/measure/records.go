package measure

// Records are the records of a run, one at a time: a RecordReader, or what joins those of the parts of a load.
type Records interface {
	// Next returns the next record, and io.EOF at the end. The record is valid until the next call.
	Next() (*Record, error)
	// Torn reports, after the end, whether a last line without a line feed was left out.
	Torn() bool
	// ContentsEnd returns where the entry of the record read last ends in ContentsFile, or in those of all parts one behind the other.
	ContentsEnd() int64
	// ContentsError returns why records have no instants of content messages; nil if all that were read have them.
	ContentsError() error
	Close() error
}

// Move moves all instants of a record. Those that did not happen stay 0.
func (r *Record) Move(by Time) {
	for _, at := range []*Time{&r.Due, &r.Admitted, &r.Sent, &r.End} {
		*at += by
	}
	for _, at := range []*Time{
		&r.Acknowledged, &r.FirstToken, &r.SecondToken, &r.FirstOutput, &r.LastToken, &r.LastMessage, &r.CancelledAt, &r.Deadline,
		&r.WaitEnd, &r.ConnectStart, &r.ConnectEnd, &r.SendStart, &r.SendEnd, &r.FirstByte, &r.LastByte,
	} {
		if *at > 0 {
			*at += by
		}
	}
}

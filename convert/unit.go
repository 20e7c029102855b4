package convert

import (
	"context"
	"fmt"

	"github.com/agentx/agentx/hfsource"
)

// shardRows is the most rows of a shard. Keys contain it.
const shardRows = 1024

// unit is what one builder reads: a file that may have several rows, or a run of files of one row each that make one shard.
type unit struct {
	from, to int  // files of the snapshot
	several  bool // rows: its shards follow each other through the file
}

// files returns the files of a unit, numbered from 0.
func (u unit) files(s *hfsource.Snapshot) *hfsource.Snapshot { return s.Slice(u.from, u.to) }

// describe names the files of a unit for messages.
func (u unit) describe(s *hfsource.Snapshot) string {
	if n := u.to - u.from; n > 1 {
		return fmt.Sprintf("%s and %d more files", s.Files[u.from].Path, n-1)
	}
	return s.Files[u.from].Path
}

// unitsOf cuts the files of a snapshot into units. A run of files of one row is cut after as many as a shard has rows.
func unitsOf(ctx context.Context, s *hfsource.Snapshot, rows int) (list []unit, err error) {
	for k := range s.Files {
		several, err := s.HasSeveralRows(ctx, k)
		if err != nil {
			return nil, err
		}
		last := len(list) - 1
		if !several && last >= 0 && !list[last].several && list[last].to-list[last].from < rows {
			list[last].to++
			continue
		}
		list = append(list, unit{k, k + 1, several})
	}
	return list, nil
}

package merge

import (
	"path/filepath"

	"github.com/agentx/agentx/replay/scrape"
)

// Servers reads what the servers said of themselves. Every part reads the pages of all servers: those of one part are taken. The error
// wraps fs.ErrNotExist where nothing was read.
func (r *Run) Servers() (*scrape.Data, error) {
	if r.parts == nil {
		return scrape.ReadFile(filepath.Join(r.Dir, scrape.File))
	}
	data, err := scrape.ReadFile(filepath.Join(r.server.dir, scrape.File))
	if err != nil {
		return nil, err
	}
	for _, e := range data.Endpoints {
		for k := range e.Answers {
			e.Answers[k].At, _ = r.server.move(e.Answers[k].At)
		}
	}
	return data, nil
}

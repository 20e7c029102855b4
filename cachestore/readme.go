package cachestore

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/internal/durable"
)

// readmeName is the file that explains a cache root to people.
const readmeName = "README.txt"

const readme = `This folder is a cache of agentx, which prepares recorded AI-agent traces once and replays them
against inference servers.

Nothing in it is an original: whatever is removed is made again from the traces when it is wanted.
Every directory below structure/, starts/, arenas/ and dataset/ is named by the hash of what it was
made from and never changes. A dataset names the parts that belong to it. Please edit nothing.

  agentx cache ls                         what is here, how large, how old, when last used
  agentx cache gc --max-bytes 20G         free what was not used for longest
  agentx cache gc --max-age 30d           free what was not used for a month
  agentx cache rm KEY                     free one dataset, and its parts unless another needs them
  agentx cache pin KEY                    keep a dataset from gc and rm

Choose the folder with --cache DIR or AGENTX_CACHE. .use holds pins and notes of what is in use,
.staging what is being built or removed. The whole folder may be deleted at any time when nothing
runs that uses it.
`

// writeReadme writes the file into a root that has none, or only its beginning, which a killed process left. It is best effort.
func writeReadme(root string) {
	path := filepath.Join(root, readmeName)
	if info, err := os.Lstat(path); err == nil && (!info.Mode().IsRegular() || info.Size() >= int64(len(readme))) {
		return
	}
	if data, err := os.ReadFile(path); err == nil && !strings.HasPrefix(readme, string(data)) { // a person has edited it
		return
	}
	_ = durable.WriteSmall(root, path, []byte(readme), 0)
}

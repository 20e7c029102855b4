package convert

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/text/claude"
	"github.com/agentx/agentx/hfsource"
)

// LogFiles returns inputs with the files of directories of logs in their place: of "claude:", "codex:", and of each directory whose files
// are logs of either. formats has the format of each such file, for LogOptions. Files stand in the byte order of their paths below the
// directory. Nothing beside the logs is opened, and no link below the directory is followed. A directory of other files, and any other
// input, stays as it is.
func LogFiles(inputs []string) (files []string, formats map[string]string, err error) {
	formats = map[string]string{}
	for _, in := range inputs {
		dir, format, err := logDirectory(in)
		if err != nil {
			return nil, nil, err
		}
		if format == "" {
			files = append(files, in)
			continue
		}
		list, err := logsBelow(dir)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("no session is there yet: %s has no .jsonl file", dir)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("input %s: %w", in, err)
		}
		for _, path := range list {
			formats[path] = format
		}
		files = append(files, list...)
	}
	return files, formats, nil
}

// setFiles sets what follows from the inputs and the formats of their files.
func (o *LogOptions) setFiles(inputs []string, formats map[string]string) {
	o.Formats = formats
	o.FilePerSession = o.Format == "raw_payload" && slices.ContainsFunc(inputs, func(in string) bool {
		info, err := os.Stat(in)
		return err == nil && info.IsDir()
	})
}

// AgentInputs are the inputs that stand for the directory in which an agent keeps its sessions.
var AgentInputs = []string{"claude:", "codex:"}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// logDirectory returns the directory of an input and the format of its logs, "" for an input that is none.
func logDirectory(in string) (dir, format string, err error) {
	name, ok := strings.CutSuffix(in, ":")
	switch agent := slices.Contains(AgentInputs, name+":"); {
	case !agent || !ok && exists(in):
		return in, formatOfDirectory(in), nil
	case !ok:
		return "", "", fmt.Errorf("input %s: there is no such file or directory: the sessions of that agent are %[1]s: with a colon", in)
	}
	variable, below := "CLAUDE_CONFIG_DIR", "projects"
	if name == "codex" {
		variable, below = "CODEX_HOME", "sessions"
	}
	root := os.Getenv(variable)
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", fmt.Errorf("input %s: set %s to its directory: %w", in, variable, err)
		}
		root = filepath.Join(home, "."+name)
	}
	dir = filepath.Join(root, below)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", "", fmt.Errorf("input %s: there is no directory %s: if its sessions are elsewhere, set %s, or name their directory", in, dir, variable)
	}
	return dir, name, nil
}

// isLog reports whether a file can be a log by its name. history.jsonl has what people typed, of all sessions of a client.
func isLog(path string) bool {
	name := filepath.Base(path)
	for _, suffix := range [...]string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return strings.HasSuffix(name, ".jsonl") && name != "history.jsonl" && name[0] != '.'
}

// stem returns a path up to the first dot of the file's name.
func stem(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return filepath.Join(filepath.Dir(path), name)
}

// logsBelow lists the logs below a directory, and what describes the agents of those that are there.
func logsBelow(dir string) (list []string, err error) {
	stems := map[string]bool{}
	err = filepath.WalkDir(dir+string(filepath.Separator), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && (isLog(path) || claude.IsAgent(path)) {
			list = append(list, filepath.Join(dir, strings.TrimPrefix(path, dir)))
			stems[stem(list[len(list)-1])] = stems[stem(list[len(list)-1])] || isLog(path)
		}
		return err
	})
	list = slices.DeleteFunc(list, func(path string) bool { return !stems[stem(path)] })
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(filepath.ToSlash(a), filepath.ToSlash(b)) })
	return list, err
}

// formatOfDirectory returns the format of the first file of a directory that has rows, "" where it is none of logs that clients append to.
// Files below it count where it has none itself.
func formatOfDirectory(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var list []string
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.Type().IsRegular() && isLog(path) {
			list = append(list, path)
		}
	}
	if len(list) == 0 {
		list, _ = logsBelow(dir) // what cannot be read there matters where it is a directory of logs
		list = slices.DeleteFunc(list, func(path string) bool { return !isLog(path) })
	}
	for _, path := range list {
		head := hfsource.BeginningOf(path, logHead)
		if f := growingFormatOf(head); f != nil {
			return f.name
		}
		if len(head) > 0 {
			return ""
		}
	}
	return ""
}

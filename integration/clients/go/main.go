// Clients in Go: the SDKs of Anthropic and OpenAI, and the client of Ollama.
//
// Arguments, each an API or API.STEP, choose some of the steps. CLIENT_ROUNDS says how often they run.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
)

type outcome map[string]any

type step struct {
	name string
	run  func() (outcome, error)
}

const maxTokens = 16

var (
	model     = os.Getenv("CLIENT_MODEL")
	arguments = map[string]any{"city": "Paris"}
	city      = map[string]any{"city": map[string]any{"type": "string"}}
	answer    = map[string]any{
		"type":                 "object",
		"properties":           map[string]any{"answer": map[string]any{"type": "integer"}, "ok": map[string]any{"type": "boolean"}},
		"required":             []string{"answer", "ok"},
		"additionalProperties": false,
	}
)

func main() {
	if model == "" {
		fail("CLIENT_MODEL is not set")
	}
	apis := []struct {
		name  string
		steps []step
	}{
		{"anthropic", anthropicSteps()},
		{"openai-chat", chatSteps()},
		{"openai-responses", responsesSteps()},
		{"ollama", ollamaSteps()},
	}
	chosen := os.Args[1:]
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("CLIENT_ROUNDS"), "1"))
	if err != nil {
		fail("CLIENT_ROUNDS is no number")
	}
	for range rounds {
		for _, api := range apis {
			for _, step := range api.steps {
				name := api.name + "." + step.name
				if len(chosen) == 0 || slices.Contains(chosen, api.name) || slices.Contains(chosen, name) {
					tell(name, step)
				}
			}
		}
	}
}

func tell(name string, step step) {
	told, err := step.run()
	if err != nil {
		fail(fmt.Sprintf("%s: %v", name, err))
	}
	told["step"] = name
	line, err := json.Marshal(told) // sorts the keys
	if err != nil {
		fail(err.Error())
	}
	fmt.Println(string(line))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}

// concurrently asks several questions at once and keeps their order.
func concurrently(ask func(question string) (outcome, error)) (outcome, error) {
	questions := []string{"One", "#unicode", "#json", "Four"}
	answers, errs := make([]outcome, len(questions)), make([]error, len(questions))
	var group sync.WaitGroup
	for i, question := range questions {
		group.Go(func() { answers[i], errs[i] = ask(question) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return outcome{"answers": answers}, nil
}

// parsed adds what the text is as JSON.
func parsed(told outcome, err error) (outcome, error) {
	if err != nil {
		return nil, err
	}
	var value any
	err = json.Unmarshal([]byte(told["text"].(string)), &value)
	told["parsed"] = value
	return told, err
}

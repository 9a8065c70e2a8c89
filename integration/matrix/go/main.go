// Clients in Go besides the SDKs of providers: net/http alone, and sashabaranov/go-openai.
//
// The first argument names one. Prints a line of JSON for each step, CLIENT_ROUNDS times.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

type fields map[string]any

var (
	model      = os.Getenv("CLIENT_MODEL")
	parameters = fields{"type": "object", "properties": fields{"city": fields{"type": "string"}}, "required": []string{"city"}}
	schema     = json.RawMessage(`{"type": "object", "properties": {"answer": {"type": "integer"}, "ok": {"type": "boolean"}},
		"required": ["answer", "ok"], "additionalProperties": false}`)
)

func base() string {
	if os.Getenv("CLIENT_ROAD") == "gateway" {
		return os.Getenv("CORTEX_REPLAY_GATEWAY") + "/openai/v1"
	}
	return "https://api.openai.com/v1"
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func tell(step string, told fields) {
	told["step"] = os.Args[1] + "." + step
	line, err := json.Marshal(told)
	check(err)
	fmt.Println(string(line))
}

func post(text string, more fields) []byte {
	body := fields{"model": model, "max_tokens": 16, "messages": []fields{{"role": "user", "content": text}}}
	for name, value := range more {
		body[name] = value
	}
	data, err := json.Marshal(body)
	check(err)
	request, err := http.NewRequest("POST", base()+"/chat/completions", bytes.NewReader(data))
	check(err)
	request.Header.Set("content-type", "application/json")
	request.Header.Set("authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	response, err := http.DefaultClient.Do(request)
	check(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(err)
	if response.StatusCode != http.StatusOK {
		check(errors.New(string(answer)))
	}
	return answer
}

func message(text string, more fields) openai.ChatCompletionMessage {
	var answer openai.ChatCompletionResponse
	check(json.Unmarshal(post(text, more), &answer))
	return answer.Choices[0].Message
}

func byNetHTTP() {
	tell("plain", fields{"text": message("Hello", nil).Content})
	tell("stream", fields{"pieces": strings.Split(string(post("Stream #unicode", fields{"stream": true})), "\n\n")})
	function := fields{"name": "get_weather", "parameters": parameters}
	tools := []fields{{"type": "function", "function": function}}
	tell("tool", fields{"calls": message("#tool in Paris?", fields{"tools": tools}).ToolCalls})
	format := fields{"type": "json_schema", "json_schema": fields{"name": "answer", "schema": schema, "strict": true}}
	tell("structured", fields{"parsed": json.RawMessage(message("#json", fields{"response_format": format}).Content)})
}

func byGoOpenAI() {
	config := openai.DefaultConfig(os.Getenv("OPENAI_API_KEY"))
	config.BaseURL = base()
	client := openai.NewClientWithConfig(config)
	asked := func(text string) openai.ChatCompletionRequest {
		messages := []openai.ChatCompletionMessage{{Role: "user", Content: text}}
		return openai.ChatCompletionRequest{Model: model, MaxTokens: 16, Messages: messages}
	}
	answer := func(request openai.ChatCompletionRequest) openai.ChatCompletionMessage {
		response, err := client.CreateChatCompletion(context.Background(), request)
		check(err)
		return response.Choices[0].Message
	}
	tell("plain", fields{"text": answer(asked("Hello")).Content})
	stream, err := client.CreateChatCompletionStream(context.Background(), asked("Stream #unicode"))
	check(err)
	pieces := []string{}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		check(err)
		for _, choice := range chunk.Choices {
			pieces = append(pieces, choice.Delta.Content)
		}
	}
	tell("stream", fields{"pieces": pieces})
	request := asked("#tool in Paris?")
	function := &openai.FunctionDefinition{Name: "get_weather", Parameters: parameters}
	request.Tools = []openai.Tool{{Type: "function", Function: function}}
	tell("tool", fields{"calls": answer(request).ToolCalls})
	request = asked("#json")
	format := &openai.ChatCompletionResponseFormatJSONSchema{Name: "answer", Schema: schema, Strict: true}
	request.ResponseFormat = &openai.ChatCompletionResponseFormat{Type: "json_schema", JSONSchema: format}
	tell("structured", fields{"parsed": json.RawMessage(answer(request).Content)})
}

func main() {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("CLIENT_ROUNDS"), "1"))
	check(err)
	run := map[string]func(){"net/http": byNetHTTP, "go-openai": byGoOpenAI}[os.Args[1]]
	for range rounds {
		run()
	}
}

package main

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go/v2"
)

func anthropicSteps() []step {
	client := anthropic.NewClient()
	ctx := context.Background()

	user := func(text string) anthropic.MessageParam {
		return anthropic.NewUserMessage(anthropic.NewTextBlock(text))
	}
	request := func(messages ...anthropic.MessageParam) anthropic.MessageNewParams {
		return anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: maxTokens, Messages: messages}
	}
	withTool := func(messages ...anthropic.MessageParam) anthropic.MessageNewParams {
		params := request(messages...)
		params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name:        "get_weather",
			Description: anthropic.String("The weather in a city."),
			InputSchema: anthropic.ToolInputSchemaParam{Properties: city, Required: []string{"city"}},
		}}}
		return params
	}
	ask := func(params anthropic.MessageNewParams) (outcome, error) {
		message, err := client.Messages.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return messageTold(*message), nil
	}
	streamed := func(params anthropic.MessageNewParams) (outcome, error) {
		stream := client.Messages.NewStreaming(ctx, params)
		message, chunks := anthropic.Message{}, 0
		for stream.Next() {
			event := stream.Current()
			if err := message.Accumulate(event); err != nil {
				return nil, err
			}
			if event.Delta.Text != "" {
				chunks++
			}
		}
		told := messageTold(message)
		told["chunks"] = chunks
		return told, stream.Err()
	}

	return []step{
		{"plain", func() (outcome, error) {
			params := request(user("Hello"))
			params.System = []anthropic.TextBlockParam{{Text: "Be brief."}}
			return ask(params)
		}},
		{"stream", func() (outcome, error) { return streamed(request(user("Stream #unicode"))) }},
		{"tool", func() (outcome, error) { return ask(withTool(user("#tool in Paris?"))) }},
		{"tool_stream", func() (outcome, error) { return streamed(withTool(user("#tool in Paris, streamed?"))) }},
		{"tool_result", func() (outcome, error) {
			return ask(withTool(
				user("Weather in Paris?"),
				anthropic.NewAssistantMessage(anthropic.NewToolUseBlock("toolu_1", arguments, "get_weather")),
				anthropic.NewUserMessage(anthropic.NewToolResultBlock("toolu_1", "18 C, sunny", false)),
			))
		}},
		{"structured", func() (outcome, error) {
			params := request(user("#json"))
			params.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: answer}}
			return parsed(ask(params))
		}},
		{"turns", func() (outcome, error) {
			first, err := client.Messages.New(ctx, request(user("Good morning")))
			if err != nil {
				return nil, err
			}
			return ask(request(user("Good morning"), first.ToParam(), user("And now?")))
		}},
		{"concurrent", func() (outcome, error) {
			return concurrently(func(question string) (outcome, error) { return ask(request(user(question))) })
		}},
		{"models", func() (outcome, error) {
			models := []string{}
			pages := client.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
			for pages.Next() {
				models = append(models, pages.Current().ID)
			}
			return outcome{"models": models}, pages.Err()
		}},
	}
}

func messageTold(message anthropic.Message) outcome {
	text, calls := "", [][]any{}
	for _, block := range message.Content {
		switch block := block.AsAny().(type) {
		case anthropic.TextBlock:
			text += block.Text
		case anthropic.ToolUseBlock:
			calls = append(calls, []any{block.Name, block.Input})
		}
	}
	return outcome{
		"text":   text,
		"calls":  calls,
		"finish": message.StopReason,
		"tokens": message.Usage.OutputTokens,
	}
}

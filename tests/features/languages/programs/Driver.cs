// Runs the call of each line of standard input, and prints its result as a line.
using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Text.Json;
using System.Threading;
using Anthropic.Helpers.Beta;
using Anthropic.Models.Beta.Messages;

public static class Driver
{
    public static void Main()
    {
        var lines = new StreamReader(Console.OpenStandardInput(), Encoding.UTF8);
        for (var line = lines.ReadLine(); line != null; line = lines.ReadLine())
        {
            var sent = JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(line);
            var timeout = TimeSpan.FromSeconds(sent["timeout"].GetDouble());
            var tool = new RetentiveMemory(sent["url"].GetString(), sent["key"].GetString(), sent["store"].GetString(), timeout);
            var input = JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(sent["block"].GetProperty("input").GetRawText());
            var call = new BetaToolUseBlock { ID = sent["block"].GetProperty("id").GetString(), Input = input };
            Console.WriteLine(JsonSerializer.Serialize(Run(tool, call, sent["by_sdk"].GetBoolean())));
        }
    }

    static Dictionary<string, object> Run(RetentiveMemory tool, BetaToolUseBlock call, bool byCommand)
    {
        try
        {
            var stop = CancellationToken.None;
            var task = byCommand ? ((BetaAbstractMemoryTool)tool).ExecuteAsync(call, stop) : ((IBetaRunnableTool)tool).ExecuteAsync(call, stop);
            return new Dictionary<string, object> { { "content", task.GetAwaiter().GetResult().Text }, { "is_error", false } };
        }
        catch (BetaToolError error)
        {
            return new Dictionary<string, object> { { "content", error.Message }, { "is_error", true } };
        }
        catch (InvalidOperationException error)
        {
            return new Dictionary<string, object> { { "failed", error.Message } };
        }
    }
}

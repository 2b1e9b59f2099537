/* A page that is opened from disk may not start a worker: run the search in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      this.inside.importScripts = () => {}; // other languages than English only
      const script = this.inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.ready = true;
        this.waiting.forEach((data) => this.postMessage(data));
      };
      this.inside.document.head.append(script);
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {}
  };
}
